// Requests that a table's limiter may hold, and the memory that batches are gathered into.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "core/chunk.h"
#include "wire/batch_sections.h"
#include "wire/session.h"
#include "wire/session_memory.h"
#include "wire/session_work.h"

namespace headrace {
namespace {

constexpr std::int64_t kMaxWaitMilliseconds = 1'000'000'000;  // eleven days; keeps `now` + wait from overflowing
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kTransitionsPerTurn = kUnitsPerTurn * kTransitionsPerUnit;

struct Draw {
  std::uint32_t size;
  double importance_exponent;
  std::int64_t wait_milliseconds;
};

void check_size(std::uint32_t size, const Limits& limits) {
  if (size > 0 && size <= limits.max_batch) return;
  throw Error(ErrorKind::kInvalid,
              "batch size " + std::to_string(size) + ": required 1 to " + std::to_string(limits.max_batch));
}

Draw read_draw(BodyReader& body, const Limits& limits) {
  Draw draw;
  draw.size = body.number<std::uint32_t>("batch size");
  draw.importance_exponent = body.number<double>("importance exponent");
  draw.wait_milliseconds = body.number<std::int64_t>("wait");
  body.end();
  check_size(draw.size, limits);
  if (!std::isfinite(draw.importance_exponent)) {
    throw Error(ErrorKind::kInvalid, "importance exponent: a finite number required");
  }
  return draw;
}

// The chunk that these bytes begin with. Where its own length cannot be right: all of them, for the table to refuse.
std::span<const std::byte> first_chunk(std::span<const std::byte> bytes) {
  ChunkHeader header;
  if (bytes.size() < sizeof(header)) return bytes;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool possible = header.bytes >= sizeof(header) && header.bytes <= bytes.size();
  return possible ? bytes.first(header.bytes) : bytes;
}

}  // namespace

Deadline Session::deadline_after(std::int64_t wait_milliseconds) const {
  if (wait_milliseconds < 0) return never();
  return now_ + std::chrono::milliseconds(std::min(wait_milliseconds, kMaxWaitMilliseconds));
}

void Session::begin_insert(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto deadline = deadline_after(body.number<std::int64_t>("wait"));
  pending_ = Pending{header, filled_table(name), deadline, InsertRequest{body.rest()}};
  try_pending();
}

void Session::fill(const std::string& name, const std::shared_ptr<Table>& table) {
  if (filled_.size() >= Server::kMaxTables)
    std::erase_if(filled_, [](const auto& each) { return each.second.expired(); });
  filled_[name] = table;
}

// What a peer inserts belongs to the table that its first insert found: the experience of an actor whose run has ended
// must not get into the table of the next run of that name.
std::shared_ptr<Table> Session::filled_table(const std::string& name) {
  if (!filled_.contains(name)) fill(name, server_.table(name));
  if (auto table = filled_.at(name).lock()) return table;
  throw Error(ErrorKind::kClosed,
              "table '" + name + "' was dropped; connect again to insert into another of that name");
}

void Session::begin_sample(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto draw = read_draw(body, limits_);
  auto table = server_.table(name);
  const auto bytes = block_bytes(table->options().signature, draw.size);
  if (bytes > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "batch of " + std::to_string(draw.size) + " transitions takes " +
                                         std::to_string(bytes) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; nothing is sampled");
  }
  pending_ = Pending{header, std::move(table), deadline_after(draw.wait_milliseconds),
                     SampleRequest{draw.size, draw.importance_exponent, block_of(bytes)}};
  try_pending();
}

// One for all batches of a session: the next is gathered when the system has taken the last, which by then still has
// several megabytes to send; a second block would push the first out of the processor's cache before it is sent.
std::shared_ptr<Session::Block> Session::block_of(std::uint64_t bytes) {
  if (block_ && block_->bytes() >= bytes) return block_;
  block_.reset();  // its bytes may be needed for the larger one
  return block_ = std::make_shared<Block>(server_.budget(), bytes);
}

void Session::share(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto size = body.number<std::uint32_t>("batch size");
  const auto count = body.number<std::uint32_t>("count");
  body.end();
  check_size(size, limits_);
  if (!make_region_) {
    throw Error(ErrorKind::kRefused, "shared memory: only over a Unix socket; sample without it");
  }
  if (shared_) throw Error(ErrorKind::kRefused, "shared memory: one for each connection; open another connection");
  const auto signature = server_.table(name)->options().signature;
  const std::uint64_t stride = (block_bytes(signature, size) + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (count == 0 || count > limits_.max_shared_bytes / stride) {
    throw Error(ErrorKind::kRefused, "shared memory for " + std::to_string(count) + " batches of " +
                                         std::to_string(stride) + " bytes: required 1 batch to " +
                                         std::to_string(limits_.max_shared_bytes) + " bytes; nothing is shared");
  }
  auto promised = server_.budget().take(count * stride, "shared memory");
  auto region = make_region_(count * stride);
  shared_ =
      std::make_unique<Shared>(Shared{name, signature, size, count, stride, std::move(promised), std::move(region)});
  push_region(header, stride, shared_->region);
}

void Session::begin_sample_shared(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto index = body.number<std::uint32_t>("index");
  const auto draw = read_draw(body, limits_);
  auto table = server_.table(name);
  if (!shared_) throw Error(ErrorKind::kRefused, "shared memory: none yet; share it before sampling into it");
  if (name != shared_->table || draw.size != shared_->size || table->options().signature != shared_->signature) {
    throw Error(ErrorKind::kRefused, "batch of " + std::to_string(draw.size) + " transitions of table '" + name +
                                         "': the shared memory is for " + std::to_string(shared_->size) + " of '" +
                                         shared_->table + "', " + shared_->signature.encode() + "; nothing is sampled");
  }
  if (index >= shared_->count) {
    throw Error(ErrorKind::kInvalid,
                "index " + std::to_string(index) + ": required below " + std::to_string(shared_->count));
  }
  pending_ = Pending{header, std::move(table), deadline_after(draw.wait_milliseconds),
                     SampleSharedRequest{index, draw.importance_exponent}};
  try_pending();
}

void Session::try_pending() {
  announced_ = 0;
  try {
    const auto table = pending_->table.lock();
    if (!table) throw Error(ErrorKind::kClosed, "the table was dropped");
    const auto attempted = [&](auto& request) { return attempt(table, request); };
    const Progress progress = std::visit(attempted, pending_->request);
    yielded_ = progress == Progress::kMore;
    const bool held = progress == Progress::kHeld && now_ < pending_->deadline;
    meter_->blocked.store(held);
    if (yielded_ || held) return;
    if (progress == Progress::kHeld) reply_nothing(pending_->header);
  } catch (const Error& error) {
    reply_error(pending_->header, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    run_out_of_memory(pending_->header);
  }
  pending_.reset();
  request_since_ = now_;
  meter_->blocked.store(false);
}

Session::Progress Session::attempt(const std::shared_ptr<Table>& table, InsertRequest& request) {
  for (std::size_t chunks = 0, bytes = 0;; ++chunks) {
    if (yields_ && (chunks == kUnitsPerTurn * kChunksPerUnit || bytes >= kUnitsPerTurn * kUnitBytes)) {
      return Progress::kMore;
    }
    const auto chunk = first_chunk(request.chunks);
    const auto key = table->try_insert(chunk);
    if (!key) return Progress::kHeld;
    bytes += chunk.size();
    request.chunks = request.chunks.subspan(chunk.size());
    if (!request.chunks.empty()) continue;
    reply_number(pending_->header, *key);
    return Progress::kDone;
  }
}

Session::Progress Session::attempt(const std::shared_ptr<Table>& table, UpdateRequest& request) {
  const std::size_t left = request.count - request.done;
  const std::size_t count = yields_ ? std::min(left, kUnitsPerTurn * kUpdatesPerUnit) : left;
  std::vector<std::uint64_t> keys(count);  // copies: a frame's body lies at any address
  std::vector<float> priorities(count);
  if (count > 0) {
    const std::byte* const first_priority = request.payload.data() + request.count * sizeof(std::uint64_t);
    std::memcpy(keys.data(), request.payload.data() + request.done * sizeof(std::uint64_t),
                std::span(keys).size_bytes());
    std::memcpy(priorities.data(), first_priority + request.done * sizeof(float), std::span(priorities).size_bytes());
  }
  request.applied += table->update_priorities(keys, priorities);
  request.done += count;
  if (request.done < request.count) return Progress::kMore;
  reply_number(pending_->header, request.applied);
  return Progress::kDone;
}

Session::Progress Session::attempt(const std::shared_ptr<Table>& table, SampleRequest& request) {
  const auto& signature = table->options().signature;
  const auto view = lay_out(signature, request.size, request.block->memory.data());
  const Progress progress = gather(table, request.gathering, view, request.importance_exponent);
  if (progress != Progress::kDone) return progress;
  const auto sections = sections_of(signature, view);
  reply_head(pending_->header, {}, total_bytes(sections));
  for (const auto section : sections) output_.push(request.block, section);
  gathered_ = true;
  return progress;
}

Session::Progress Session::attempt(const std::shared_ptr<Table>& table, SampleSharedRequest& request) {
  const auto view = lay_out(shared_->signature, shared_->size, shared_->at(request.index));
  const Progress progress = gather(table, request.gathering, view, request.importance_exponent);
  if (progress != Progress::kDone) return progress;
  reply_number(pending_->header, request.index);
  gathered_ = true;
  return progress;
}

// Draws the batch, or goes on with it.
Session::Progress Session::gather(const std::shared_ptr<Table>& table, Gathering& gathering, const BatchView& view,
                                  double exponent) {
  if (!gathering.draw) {
    auto draw = table->try_draw(view, exponent);
    if (!draw) return Progress::kHeld;
    gathering = {table, std::move(draw)};
    if (yields_ && view.size > kTransitionsPerTurn) return Progress::kMore;  // a turn's work, too
  }
  if (!yields_) {
    gathering.draw->gather_all();
    return Progress::kDone;
  }
  const std::uint64_t turn = kUnitsPerTurn * kUnitBytes / gathering.draw->transition_bytes() + 1;
  return gathering.draw->gather(std::min(turn, kTransitionsPerTurn)) ? Progress::kDone : Progress::kMore;
}

}  // namespace headrace
