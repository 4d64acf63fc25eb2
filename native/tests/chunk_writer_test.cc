#include "core/chunk_writer.h"

#include <cmath>
#include <limits>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

Signature scalar_signature(std::uint32_t stack) { return {{"float32", {}}, {"int32", {}}, stack}; }

// A finished chunk with its columns taken apart.
struct Columns {
  explicit Columns(const Signature& signature, const std::vector<std::byte>& bytes) {
    header = check_chunk(signature, bytes);
    const ChunkLayout layout = ChunkLayout::of(signature, header.steps, header.rows);
    const auto get = [&](auto& column, std::size_t offset, std::size_t count) {
      column.resize(count);
      std::memcpy(column.data(), bytes.data() + offset, count * sizeof(column[0]));
    };
    get(rows, layout.observation, header.rows);
    get(action, layout.action, header.steps);
    get(policy_version, layout.policy_version, header.steps);
    get(first, layout.first, header.steps);
    get(last, layout.last, header.steps);
    get(reward, layout.reward, header.steps);
    get(discount, layout.discount, header.steps);
    get(priority, layout.priority, header.steps);
  }

  std::vector<float> stack_of(std::uint32_t row, std::uint32_t k) const {
    std::vector<float> frames;
    for (std::uint32_t i = 0; i < k; ++i) frames.push_back(rows[row + i + 1 >= k ? row + i + 1 - k : 0]);
    return frames;
  }

  ChunkHeader header;
  std::vector<float> rows, reward, discount, priority;
  std::vector<std::int32_t> action;
  std::vector<std::uint64_t> policy_version;
  std::vector<std::uint32_t> first, last;
};

using Numbers = std::vector<float>;
using Rows = std::vector<std::uint32_t>;
using Versions = std::vector<std::uint64_t>;

// gamma = 1/2, n = 3, K = 2, chunks of 2. Frame i is 10 i, action i, reward 2^i; five steps.
std::vector<Columns> five_steps(bool terminated, bool values) {
  ChunkWriter writer({.signature = scalar_signature(2), .n_step = 3, .discount = 0.5, .chunk_steps = 2, .actor = 9});
  float frame = 0;
  writer.start(&frame);
  for (std::int32_t i = 0; i < 5; ++i) {
    frame = 10.0f * static_cast<float>(i + 1);
    const Values known = values ? Values{static_cast<double>(i), 10.0 * i} : Values{};
    const bool end = i == 4;
    writer.append(&i, std::ldexp(1.0f, i), &frame, end && terminated, end && !terminated, known,
                  end && values && !terminated ? 50.0 : kNotKnown);
  }
  std::vector<Columns> chunks;
  for (const auto& bytes : writer.take()) chunks.emplace_back(scalar_signature(2), bytes);
  return chunks;
}

TEST_CASE("chunk writer: n-step returns, rows and overlap, worked by hand") {
  for (const bool terminated : {true, false}) {
    CAPTURE(terminated);
    const auto chunks = five_steps(terminated, false);
    REQUIRE(chunks.size() == 3);
    CHECK(chunks[0].rows == Numbers{0, 10, 20, 30, 40});
    CHECK(chunks[0].first == Rows{0, 1});
    CHECK(chunks[0].last == Rows{3, 4});
    CHECK(chunks[0].action == std::vector<std::int32_t>{0, 1});
    CHECK(chunks[0].reward == Numbers{3, 6});  // 1 + 2/2 + 4/4; 2 + 4/2 + 8/4
    CHECK(chunks[0].discount == Numbers{0.125f, 0.125f});
    CHECK(chunks[1].rows == Numbers{10, 20, 30, 40, 50});  // one row of history, three of lookahead
    CHECK(chunks[1].first == Rows{1, 2});
    CHECK(chunks[1].last == Rows{4, 4});
    CHECK(chunks[1].action == std::vector<std::int32_t>{2, 3});
    CHECK(chunks[1].reward == Numbers{12, 16});  // 4 + 8/2 + 16/4; 8 + 16/2
    CHECK(chunks[2].rows == Numbers{30, 40, 50});
    CHECK(chunks[2].first == Rows{1});
    CHECK(chunks[2].last == Rows{2});
    CHECK(chunks[2].reward == Numbers{16});
    if (terminated) {
      CHECK(chunks[1].discount == Numbers{0, 0});
      CHECK(chunks[2].discount == Numbers{0});
    } else {
      CHECK(chunks[1].discount == Numbers{0.125f, 0.25f});
      CHECK(chunks[2].discount == Numbers{0.5f});
    }
    for (const auto& chunk : chunks) {
      CHECK(chunk.header.actor == 9);
      for (const float priority : chunk.priority) CHECK(priority == kUnknownPriority);
    }
  }
}

TEST_CASE("chunk writer: priorities from values, worked by hand") {
  const auto terminated = five_steps(true, true);
  CHECK(terminated[0].priority == Numbers{6.75f, 10});  // |3 + 30/8 - 0|, |6 + 40/8 - 1|
  CHECK(terminated[1].priority == Numbers{10, 13});     // |12 - 2|, |16 - 3|
  CHECK(terminated[2].priority == Numbers{12});         // |16 - 4|
  const auto truncated = five_steps(false, true);
  CHECK(truncated[0].priority == Numbers{6.75f, 10});
  CHECK(truncated[1].priority == Numbers{16.25f, 25.5f});  // |12 + 50/8 - 2|, |16 + 50/4 - 3|
  CHECK(truncated[2].priority == Numbers{37});             // |16 + 50/2 - 4|
}

TEST_CASE("chunk writer: flush closes only complete transitions") {
  for (const bool values : {false, true}) {
    CAPTURE(values);
    ChunkWriter writer({.signature = scalar_signature(1), .n_step = 3, .discount = 1, .chunk_steps = 50});
    float frame = 0;
    writer.start(&frame);
    for (std::int32_t i = 0; i < 4; ++i) {
      frame = static_cast<float>(i + 1);
      writer.append(&i, 1, &frame, false, false, values ? Values{0, 1} : Values{});
    }
    writer.flush();
    writer.flush();  // nothing is left to close
    auto chunks = writer.take();
    REQUIRE(chunks.size() == 1);
    const Columns columns(scalar_signature(1), chunks[0]);
    // Steps 0 and 1 have their three rewards; with values, step 1 still waits for max Q(s_4).
    CHECK(columns.first == (values ? Rows{0} : Rows{0, 1}));
    CHECK(columns.rows == (values ? Numbers{0, 1, 2, 3} : Numbers{0, 1, 2, 3, 4}));
    frame = 5;
    const std::int32_t action = 4;
    writer.append(&action, 1, &frame, true, false, values ? Values{0, 1} : Values{});
    chunks = writer.take();
    REQUIRE(chunks.size() == 1);
    const Columns rest(scalar_signature(1), chunks[0]);
    CHECK(rest.reward == (values ? Numbers{3, 3, 2, 1} : Numbers{3, 2, 1}));
    CHECK(rest.discount == (values ? Numbers{1, 0, 0, 0} : Numbers{0, 0, 0}));
    CHECK(rest.rows.front() == (values ? 1 : 2));
  }
}

// One step of each version, which is set just before it; the last ends the episode where `end` says so.
void act(ChunkWriter& writer, const Versions& versions, bool values, bool end) {
  const float frame = 0;
  const std::int32_t action = 0;
  for (std::size_t t = 0; t < versions.size(); ++t) {
    writer.set_policy_version(versions[t]);
    writer.append(&action, 1, &frame, end && t + 1 == versions.size(), false, values ? Values{0, 1} : Values{});
  }
}

std::vector<Versions> take_versions(ChunkWriter& writer) {
  std::vector<Versions> versions;
  for (const auto& bytes : writer.take()) versions.push_back(Columns(scalar_signature(1), bytes).policy_version);
  return versions;
}

TEST_CASE("chunk writer: each step has the policy version that was set when it was appended, worked by hand") {
  const float frame = 0;
  for (const bool values : {false, true}) {
    CAPTURE(values);
    ChunkWriter writer({.signature = scalar_signature(1), .n_step = 3, .discount = 1, .chunk_steps = 4});
    writer.start(&frame);
    act(writer, {5, 5, 6, 7, 7, 8}, values, false);
    // Step 3 has its three rewards, so the chunk is closed; with values it waits for max Q(s_6), which step 6 brings.
    CHECK(writer.finished() == (values ? 0 : 1));
    act(writer, {9}, values, true);  // steps 4 and 5 were pending across chunks, and all end together
    CHECK(take_versions(writer) == std::vector<Versions>{{5, 5, 6, 7}, {7, 8, 9}});

    writer.start(&frame);
    act(writer, {9, 12}, values, false);
    writer.set_policy_version(14);  // no step follows
    writer.start(&frame);           // closes the episode as by truncation
    CHECK(take_versions(writer) == std::vector<Versions>{{9, 12}});

    act(writer, {14, 15, 16, 17}, values, false);
    writer.set_policy_version(99);
    writer.flush();
    CHECK(take_versions(writer) == (values ? std::vector<Versions>{{14}} : std::vector<Versions>{{14, 15}}));
    act(writer, {18}, values, true);
    CHECK(take_versions(writer) ==
          (values ? std::vector<Versions>{{15, 16, 17, 18}} : std::vector<Versions>{{16, 17, 18}}));
  }
}

// Against the definition: every transition once and in order, its stacks, return, discount, priority, version; rows
// bounded, consecutive and with their whole history.
TEST_CASE("chunk writer: random episodes against the definition") {
  std::mt19937 random(11);
  const auto below = [&](unsigned bound) { return random() % bound; };
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = 1 + below(5), k = 1 + below(4), length = 1 + below(7);
    const double gamma = 0.9;
    const bool values = below(2) == 0;
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(length);
    const Signature signature = scalar_signature(k);
    ChunkWriter writer({.signature = signature, .n_step = n, .discount = gamma, .chunk_steps = length});
    std::uint64_t version = 0;
    for (int episode = 0; episode < 3; ++episode) {
      const std::uint32_t steps = 1 + below(30);
      const bool terminated = below(2) == 0;
      std::vector<float> rewards;
      std::vector<double> chosen, greedy;
      Versions versions;
      float frame = 0;
      writer.start(&frame);
      for (std::uint32_t t = 0; t < steps; ++t) {
        rewards.push_back(static_cast<float>(below(100)) / 8);
        chosen.push_back(static_cast<double>(below(100)) / 8);
        greedy.push_back(static_cast<double>(below(100)) / 8);
        frame = static_cast<float>(t + 1);
        const bool end = t + 1 == steps;
        const auto action = static_cast<std::int32_t>(t);
        if (end) greedy.push_back(static_cast<double>(below(100)) / 8);
        if (below(4) == 0) writer.set_policy_version(version = random());
        versions.push_back(version);
        writer.append(&action, rewards[t], &frame, end && terminated, end && !terminated,
                      values ? Values{chosen[t], greedy[t]} : Values{}, end && values ? greedy[steps] : kNotKnown);
        if (!end && below(9) == 0) writer.flush();
      }
      std::uint32_t t = 0;
      for (const auto& bytes : writer.take()) {
        const Columns chunk(signature, bytes);
        REQUIRE(chunk.header.rows <= chunk.header.steps + n + k - 1);
        REQUIRE(chunk.header.steps <= length);
        REQUIRE((chunk.first[0] >= k - 1 || chunk.rows[0] == 0));
        for (std::size_t r = 1; r < chunk.rows.size(); ++r)
          REQUIRE(chunk.rows[r] == chunk.rows[0] + static_cast<float>(r));
        for (std::uint32_t i = 0; i < chunk.header.steps; ++i, ++t) {
          const std::uint32_t ahead = std::min(n, steps - t);
          const bool ended = terminated && t + n >= steps;
          double sum = 0;
          for (std::uint32_t j = 0; j < ahead; ++j) sum += std::pow(gamma, j) * rewards[t + j];
          const double discount = ended ? 0 : std::pow(gamma, ahead);
          REQUIRE(chunk.action[i] == static_cast<std::int32_t>(t));
          REQUIRE(chunk.policy_version[i] == versions[t]);
          REQUIRE(chunk.reward[i] == doctest::Approx(sum));
          REQUIRE(chunk.discount[i] == doctest::Approx(discount));
          for (std::uint32_t j = 0; j < k; ++j) {
            const auto frame_at = [&](std::uint32_t newest) {
              return std::max(0.0f, static_cast<float>(newest + j) + 1 - static_cast<float>(k));
            };
            REQUIRE(chunk.stack_of(chunk.first[i], k)[j] == frame_at(t));
            REQUIRE(chunk.stack_of(chunk.last[i], k)[j] == frame_at(t + ahead));
          }
          const double priority = std::abs(sum + discount * greedy[t + ahead] - chosen[t]);
          REQUIRE(chunk.priority[i] == (values ? doctest::Approx(priority) : doctest::Approx(kUnknownPriority)));
        }
      }
      REQUIRE(t == steps);
    }
  }
}

TEST_CASE("chunk writer: an unfinished episode is closed as if truncated") {
  ChunkWriter writer({.signature = scalar_signature(1), .n_step = 2, .discount = 0.5, .chunk_steps = 50});
  float frame = 0;
  std::int32_t action = 0;
  writer.start(&frame);
  writer.append(&action, 4, &frame, false, false);
  writer.append(&action, 2, &frame, false, false);
  writer.start(&frame);
  writer.start(&frame);  // an episode without steps leaves nothing
  REQUIRE(writer.finished() == 1);
  const Columns chunk(scalar_signature(1), writer.take()[0]);
  CHECK(chunk.reward == Numbers{5, 2});
  CHECK(chunk.discount == Numbers{0.25f, 0.5f});
}

TEST_CASE("chunk writer: misuse is named") {
  ChunkWriter writer({.signature = scalar_signature(1)});
  float frame = 0;
  std::int32_t action = 0;
  check_error(ErrorKind::kInvalid, "start()", [&] { writer.append(&action, 0, &frame, false, false); });
  writer.start(&frame);
  check_error(ErrorKind::kInvalid, "reward", [&] { writer.append(&action, std::nanf(""), &frame, false, false); });
  writer.append(&action, 0, &frame, true, false);
  check_error(ErrorKind::kInvalid, "start()", [&] { writer.append(&action, 0, &frame, false, false); });
  check_error(ErrorKind::kInvalid, "n_step", [] { ChunkWriter({.signature = scalar_signature(1), .n_step = 0}); });
  check_error(ErrorKind::kInvalid, "discount",
              [] { ChunkWriter({.signature = scalar_signature(1), .discount = 1.1}); });
  check_error(ErrorKind::kInvalid, "chunk_steps",
              [] { ChunkWriter({.signature = scalar_signature(1), .chunk_steps = 0}); });
}

}  // namespace
}  // namespace headrace
