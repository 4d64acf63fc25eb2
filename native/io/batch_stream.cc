#include "io/batch_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <deque>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "core/huge_array.h"
#include "core/mutex.h"
#include "core/quiet_thread.h"
#include "io/link.h"
#include "io/priority_update.h"
#include "io/shared_memory.h"
#include "io/silence.h"
#include "io/waker.h"
#include "wire/batch_sections.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWait{10'000};  // that a request asks for; then the server says that there is nothing yet
constexpr std::size_t kMinCredit = 2;  // one that the consumer reads, one that is under way
constexpr std::size_t kMaxCredit = 64;
// Priorities without an answer. While a batch is on its way, or the table holds a request for one, the server reads
// nothing, and this thread reads nothing while it sends: so many always fit into the connection's buffers, so that the
// two never wait for each other.
constexpr std::size_t kMostKeysAsked = 4096;

// Room for the batches of one connection.
struct Memory {
  std::uint64_t number;
  std::uint64_t stride;  // from one batch to the next
  std::optional<MappedRegion> shared;
  std::optional<HugeArray<std::byte>> own;

  std::byte* batch(std::size_t index) { return (shared ? shared->data() : own->data()) + index * stride; }
};

struct Update {
  std::vector<std::uint64_t> keys;
  std::vector<float> priorities;
  std::size_t sent = 0;  // of them
};

struct Asked {
  std::optional<std::size_t> index;  // where the batch goes; none for an update of priorities
  std::size_t keys = 0;              // of the update
};

struct Slot {
  std::shared_ptr<Memory> memory;
  std::size_t index;
};

std::size_t checked_credit(std::size_t credit) {
  if (credit >= kMinCredit && credit <= kMaxCredit) return credit;
  throw Error(ErrorKind::kInvalid, "credit " + std::to_string(credit) + ": required " + std::to_string(kMinCredit) +
                                       " to " + std::to_string(kMaxCredit) + " batches");
}

}  // namespace

struct BatchStream::Impl {
  Impl(ClientOptions options, std::string table, std::uint32_t batch_size, std::size_t credit, double exponent);
  ~Impl();

  std::optional<Batch> next(Deadline deadline);
  void post_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities);
  void close();

  void greet(ClientConnection& connection);
  std::shared_ptr<Memory> share(ClientConnection& connection);
  FrameHeader request_share(ClientConnection& connection, std::span<const std::byte> payload);
  void run();
  void ask(ClientConnection& connection);
  void send_priorities(ClientConnection& connection);
  bool wait_for_reply(ClientConnection& connection);
  void take_reply(ClientConnection& connection);
  void take_batch(ClientConnection& connection, const FrameHeader& reply, std::size_t index);
  void give_back(std::size_t index);
  void end(std::exception_ptr error);

  const std::string table;
  const std::uint32_t batch_size;
  const std::size_t credit;
  const double importance_exponent;
  const bool shared;
  const milliseconds request_timeout;
  const Limits limits;
  const Interrupt interrupt;
  bool constructing = true;            // afterwards only next() calls the interrupt
  Waker waker;                         // of the thread: a batch was given back, or the stream closed
  std::optional<Signature> signature;  // from the first connection on

  // Used by the thread alone, and by the constructor before it.
  std::deque<Asked> asked;     // in the order of the requests
  std::size_t keys_asked = 0;  // of the updates among them
  std::deque<Update> unsent;
  std::vector<std::size_t> places;  // that are free, and not asked for yet
  Silence silence;                  // while one is asked for
  std::uint64_t memories = 0;
  std::shared_ptr<Memory> memory;  // of the connection that there is

  std::optional<Slot> taken;  // that the consumer reads

  Mutex mutex;
  ConditionVariable ready_or_ended;
  std::uint64_t current GUARDED_BY(mutex) = 0;      // the number of `memory`
  std::vector<std::size_t> free GUARDED_BY(mutex);  // indices in it
  std::vector<Update> updates GUARDED_BY(mutex);    // that the thread has not taken yet
  std::deque<Slot> ready GUARDED_BY(mutex);         // in the order drawn; the first may lie in an older memory
  std::exception_ptr error GUARDED_BY(mutex);       // once the thread is at its end

  std::optional<Link> link;
  std::thread thread;
};

BatchStream::Impl::Impl(ClientOptions options, std::string table, std::uint32_t batch_size, std::size_t credit,
                        double exponent)
    : table(std::move(table)),
      batch_size(batch_size),
      credit(checked_credit(credit)),
      importance_exponent(exponent),
      shared(Address::parse(options.address).is_unix()),
      request_timeout(options.request_timeout),
      limits(options.limits),
      interrupt(options.interrupt) {
  options.interrupt = [this] {
    if (constructing && interrupt) interrupt();
  };
  link.emplace(std::move(options), [this](ClientConnection& connection) { greet(connection); });
  constructing = false;
  thread = start_quiet_thread([this] { run(); });
}

BatchStream::Impl::~Impl() {
  close();
  thread.join();
}

// A new connection: new memory, and nothing is asked for yet.
void BatchStream::Impl::greet(ClientConnection& connection) {
  const auto reply = connection.request(MessageType::kSignature, table, {});
  const auto found = Signature::decode(as_text(connection.receive_body(reply)));
  if (signature && *signature != found) {
    throw Error(ErrorKind::kInvalid, "table '" + table + "' holds " + found.encode() +
                                         " since the connection was lost; " + signature->encode() +
                                         " required; the stream ends");
  }
  if (!signature) signature = found;
  memory = share(connection);
  asked.clear();
  places.clear();
  keys_asked = 0;
  const LockGuard lock(mutex);
  current = memory->number;
  free.clear();
  for (std::size_t index = 0; index < credit; ++index) free.push_back(index);
}

FrameHeader BatchStream::Impl::request_share(ClientConnection& connection, std::span<const std::byte> payload) {
  try {
    return connection.request(MessageType::kShare, table, payload);
  } catch (const Error& error) {
    // After a loss the server's budget may still hold what the lost connection had, until it is closed there too.
    if (error.kind() == ErrorKind::kRefused && memory) connection.throw_lost(error.what());
    throw;
  }
}

std::shared_ptr<Memory> BatchStream::Impl::share(ClientConnection& connection) {
  auto result = std::make_shared<Memory>();
  result->number = memories++;
  result->stride = block_bytes(*signature, batch_size);
  if (!shared) {
    result->own.emplace(credit * result->stride);
    return result;
  }
  std::vector<std::byte> payload;
  append_number(payload, batch_size);
  append_number(payload, static_cast<std::uint32_t>(credit));
  const auto reply = request_share(connection, payload);
  const auto stride = connection.receive_number<std::uint64_t>(reply);
  if (stride < result->stride || stride > limits.max_shared_bytes) {
    connection.throw_malformed("shared memory of " + std::to_string(stride) +
                               " bytes a batch: " + std::to_string(result->stride) + " required");
  }
  result->stride = stride;
  result->shared.emplace(connection.take_descriptor(), credit * stride);
  return result;
}

void BatchStream::Impl::run() {
  run_in_background();
  try {
    for (;;) {
      link->exchange([this](ClientConnection& connection) {
        ask(connection);
        if (wait_for_reply(connection)) take_reply(connection);
      });
    }
  } catch (...) {
    end(std::current_exception());
    link->close();  // so that the server does not gather batches that nothing will read
  }
}

// Sends the priorities that there are, and asks for a batch in every place that is free: after them, so that a consumer
// is never ahead of its priorities.
void BatchStream::Impl::ask(ClientConnection& connection) {
  {
    const LockGuard lock(mutex);
    std::ranges::move(free, std::back_inserter(places));
    free.clear();
    std::ranges::move(updates, std::back_inserter(unsent));
    updates.clear();
  }
  if (asked.empty()) silence = Silence(Clock::now());
  send_priorities(connection);
  if (!unsent.empty()) return;
  for (const auto index : std::exchange(places, {})) {
    std::vector<std::byte> payload;
    if (shared) append_number(payload, static_cast<std::uint32_t>(index));
    append_number(payload, batch_size);
    append_number(payload, importance_exponent);
    append_number(payload, std::int64_t{kWait.count()});
    asked.push_back({.index = index});
    connection.send(shared ? MessageType::kSampleShared : MessageType::kSample, table, payload);
  }
}

// As many as may be sent; the rest follows when there are answers.
void BatchStream::Impl::send_priorities(ClientConnection& connection) {
  while (!unsent.empty()) {
    auto& [keys, priorities, sent] = unsent.front();
    const std::size_t count = std::min(keys.size() - sent, kMostKeysAsked);
    if (keys_asked + count > kMostKeysAsked) return;
    const auto parts =
        parts_of_update(std::span(keys).subspan(sent, count), std::span(priorities).subspan(sent, count));
    asked.push_back({.index = {}, .keys = count});
    keys_asked += count;
    connection.send(MessageType::kUpdatePriorities, table, {}, parts);
    sent += count;
    if (sent == keys.size()) unsent.pop_front();
  }
}

// Waits. True if the server sent something, false if the consumer gave a batch back.
bool BatchStream::Impl::wait_for_reply(ClientConnection& connection) {
  const auto event = connection.wait(waker, asked.empty() ? milliseconds(-1) : kInterruptSlice);
  if (event == Transport::Event::kNothing && silence.look(Clock::now()) >= kWait + request_timeout) {
    connection.throw_lost("no answer within " + std::to_string(request_timeout.count()) + " ms");
  }
  return event == Transport::Event::kInput;
}

void BatchStream::Impl::take_reply(ClientConnection& connection) {
  const auto sample = shared ? MessageType::kSampleShared : MessageType::kSample;
  const bool updated = !asked.empty() && !asked.front().index;
  const auto reply = connection.receive(updated ? MessageType::kUpdatePriorities : sample);
  const auto [index, keys] = asked.front();  // there is one: of the end of the connection, receive() throws
  asked.pop_front();
  keys_asked -= keys;
  silence = Silence(Clock::now());
  if (index) {
    take_batch(connection, reply, *index);
  } else {
    connection.receive_number<std::uint64_t>(reply);
  }
}

void BatchStream::Impl::take_batch(ClientConnection& connection, const FrameHeader& reply, std::size_t index) {
  if (reply.status == kNothing) return give_back(index);
  if (shared) {
    if (connection.receive_number<std::uint32_t>(reply) != index) {
      connection.throw_malformed("the reply is not the batch asked for");
    }
  } else {
    const auto sections = sections_of(*signature, lay_out(*signature, batch_size, memory->batch(index)));
    if (reply.length != total_bytes(sections))
      connection.throw_malformed("the reply is not a batch of the size asked for");
    connection.receive_body(sections);
  }
  {
    const LockGuard lock(mutex);
    ready.push_back({memory, index});
  }
  ready_or_ended.notify_one();
}

void BatchStream::Impl::give_back(std::size_t index) {
  const LockGuard lock(mutex);
  free.push_back(index);
}

std::optional<BatchStream::Batch> BatchStream::Impl::next(Deadline deadline) {
  bool poke = false;
  {
    const LockGuard lock(mutex);
    if (taken && taken->memory->number == current) free.push_back(taken->index);
    taken.reset();
    if (ready.empty() && !free.empty()) waker.poke();
    while (ready.empty()) {
      if (error) std::rethrow_exception(error);
      if (Clock::now() >= deadline) return std::nullopt;
      const auto slice = std::min(deadline, Clock::now() + kInterruptSlice);
      if (!ready_or_ended.wait_until(mutex, slice) && interrupt) {
        const UnlockGuard unlocked(mutex);
        interrupt();
      }
    }
    taken = std::move(ready.front());
    ready.pop_front();
    poke = !free.empty() && ready.size() < credit / 2;  // waking the thread takes longer than the rest of this call
  }
  if (poke) waker.poke();
  auto& place = *taken->memory;
  return Batch{place.number, taken->index, lay_out(*signature, batch_size, place.batch(taken->index)), taken->memory};
}

void BatchStream::Impl::post_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities) {
  parts_of_update(keys, priorities);  // checks them
  Update update{{keys.begin(), keys.end()}, {priorities.begin(), priorities.end()}};
  for (float& each : update.priorities) each = std::abs(each);
  const LockGuard lock(mutex);
  if (error) std::rethrow_exception(error);
  updates.push_back(std::move(update));
}

void BatchStream::Impl::end(std::exception_ptr reason) {
  {
    const LockGuard lock(mutex);
    if (!error) error = std::move(reason);
  }
  ready_or_ended.notify_all();
}

void BatchStream::Impl::close() {
  end(std::make_exception_ptr(Error(ErrorKind::kClosed, "batches of table '" + table + "': the stream is closed")));
  link->close();
  waker.poke();
}

BatchStream::BatchStream(ClientOptions options, std::string table, std::uint32_t batch_size, std::size_t credit,
                         double importance_exponent)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(table), batch_size, credit, importance_exponent)) {}

BatchStream::~BatchStream() = default;

const Signature& BatchStream::signature() const { return *impl_->signature; }
bool BatchStream::shared() const { return impl_->shared; }
std::optional<BatchStream::Batch> BatchStream::next(Deadline deadline) { return impl_->next(deadline); }
void BatchStream::post_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities) {
  impl_->post_priorities(keys, priorities);
}
void BatchStream::close() { impl_->close(); }

}  // namespace headrace
