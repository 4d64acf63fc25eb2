// One connection's side of the protocol, without any input or output: bytes go in, lists of buffers come out.
//
// A session knows no sockets, no threads and no clock. Whoever drives it (an epoll loop, a poll-mode loop over a
// user-space TCP stack, a test) does, for each connection:
//
//   - while wants_input(): put received bytes into prepare(), then commit() how many. The space is the session's own
//     receive buffer, so bytes are copied once, by whoever receives them;
//   - send output() in order and say consumed(); a published blob or a sampled batch is sent from where it lies;
//   - when blocked(): a request (insert or sample) waits for a table's limiter. No later request is handled meanwhile,
//     so replies keep their order. Call resume() when that table wakes (Table::add_waker) and at deadline(). After
//     adding a waker call resume() once more: the table may have changed in between;
//   - when closing() and output() is empty: close the connection. At any time the session may simply be destroyed.
//
// Backpressure is the session's: it takes no input while it is blocked, or while more than Limits::max_queued_bytes
// of output wait for the peer. Time is whatever the caller last passed as `now`.
//
// A malformed frame header is answered with an error frame, and the session closes: the stream has lost its place. Any
// other mistake of the peer (a chunk that does not fit, an unknown type, a body too short) is answered with an
// error, and the session goes on.
//
// Threading: one thread at a time. Sessions of one server may run on different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/server.h"
#include "wire/frame.h"
#include "wire/limits.h"
#include "wire/receive_buffer.h"
#include "wire/send_queue.h"

namespace headrace {

class Session {
 public:
  using Time = Deadline;

  explicit Session(Server& server, Limits limits = {});  // the server outlives the session

  bool wants_input() const;
  std::span<std::byte> prepare();  // not empty; wants_input() must hold; void after the next call
  void commit(std::size_t count, Time now);

  std::span<const std::span<const std::byte>> output() { return output_.buffers(); }
  void consumed(std::size_t count, Time now);

  bool blocked() const { return pending_.has_value(); }
  const std::shared_ptr<Table>& blocked_on() const { return pending_->table; }  // blocked() must hold
  Time deadline() const { return pending_ ? pending_->deadline : never(); }
  bool resume(Time now);  // true: not blocked any more

  bool closing() const { return closing_; }

 private:
  struct InsertRequest {
    std::span<const std::byte> chunk;  // in input_, which stays as it is while the session is blocked
  };
  struct SampleRequest {
    std::uint32_t size;
    double importance_exponent;
  };
  struct Pending {
    FrameHeader header;
    std::shared_ptr<Table> table;
    Deadline deadline;
    std::variant<InsertRequest, SampleRequest> request;
  };
  struct Block;  // memory that batches are gathered into

  void handle_frames(Time now);
  std::size_t front_frame_bytes() const;
  void finish_front();
  void handle(const FrameHeader& header, std::span<const std::byte> body, Time now);
  void dispatch(const FrameHeader& header, std::span<const std::byte> body, Time now);
  void begin_insert(const FrameHeader& header, const std::string& name, BodyReader& body);
  void begin_sample(const FrameHeader& header, const std::string& name, BodyReader& body, Time now);
  void update_priorities(const FrameHeader& header, const std::string& name, BodyReader& body);
  void publish(const FrameHeader& header, const std::string& name, BodyReader& body);
  void fetch(const FrameHeader& header, const std::string& name, BodyReader& body);
  void drain(const FrameHeader& header, const std::string& name);

  void try_pending(Time now);
  bool try_insert(const InsertRequest& request);
  bool try_sample(const SampleRequest& request);

  void reply(const FrameHeader& request, std::span<const std::byte> body);
  // As reply(), but `later_bytes` of the body are pushed by the caller.
  void reply_head(const FrameHeader& request, std::span<const std::byte> body, std::uint64_t later_bytes);
  void reply_nothing(const FrameHeader& request);
  void reply_error(const FrameHeader& request, ErrorKind kind, std::string_view message);

  Server& server_;
  const Limits limits_;
  ReceiveBuffer input_;
  SendQueue output_;
  std::optional<FrameHeader> front_;  // header of the frame in front of input_, once it is there
  std::optional<Pending> pending_;
  std::shared_ptr<Block> block_;
  bool closing_ = false;
};

}  // namespace headrace
