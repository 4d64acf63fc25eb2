// The part of the address after # says what is shown; the answer to the form keeps it.

document.querySelector("form").action = `/login${location.hash}`;
