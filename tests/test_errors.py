"""The form of messages."""

import pytest

from headrace.errors import ConfigError, require


@pytest.mark.parametrize(("value", "shown"), [("x", "x"), (0, "0"), (None, "None"), ("", "''")])
def test_a_message_has_the_field_the_value_and_the_requirement(value: object, shown: str) -> None:
    require("speed", value, True, "fast")
    with pytest.raises(ConfigError) as raised:
        require("speed", value, False, "fast")
    assert str(raised.value) == f"speed is {shown}; it must be fast"
