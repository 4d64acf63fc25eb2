// One connection's side of the protocol, without any input or output: bytes go in, lists of buffers come out.
//
// A session uses no sockets, threads or clock. Its driver (an epoll loop, a poll-mode loop over a user-space TCP stack,
// a test) does the following for each connection:
//
//   - while wants_input(): put received bytes into prepare(), then commit() how many. The space is the session's
//     receive buffer, so bytes are copied once, on receipt;
//   - send output() in order and say consumed(); a published blob or a sampled batch is sent from where it lies. Where
//     output_descriptor() is not -1, that descriptor goes with the first byte of output(), which then ends with
//     the frame that it belongs to;
//   - when blocked(): a request (insert or sample) waits for a table's limiter. No later request is handled meanwhile,
//     so replies keep their order. Call resume() when that table wakes (Table::add_waker) and at deadline(). After
//     adding a waker call resume() once more: the table may have changed in between;
//   - when yielded(), which needs SessionOptions::yields: received frames, or the rest of a long request, wait, because
//     it is the turn of other sessions or because the next frame belongs to another thread. Take the session to the
//     thread for its place() and lane(), and call resume(). Between two turns a session works for a few milliseconds;
//   - call expire() once a second or so: it begins closing where the peer is too slow, too silent or too long unproven.
//     Call excuse() first for time in which the driver could not serve it;
//   - when closing() and output() is empty: close the connection. When broken(): close it at once. At any time the
//     session may simply be destroyed; claims end then, and shared memory is released when the peer has unmapped it
//     too.
//
// Backpressure is the session's: it takes no input while it is blocked, or while more than Limits::max_queued_bytes
// of output wait for the peer. One sampled batch may wait in addition, so that the next is gathered while it is on its
// way; but before anything else is handled, a batch that was gathered must have begun to go out. Time is the
// `now` that the caller passed last.
//
// A malformed frame header is answered with an error frame, and the session closes: the position in the stream is lost.
// It also closes on any error before the peer has shown the token, and where the server's memory budget has no room for
// a frame. Any other mistake of the peer (a chunk that does not fit, an unknown type, a body too short) is answered
// with an error, and the session goes on.
//
// Threading: one thread at a time. Sessions of one server may run on different threads, and a session may be handed
// from one to another between calls.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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
#include "wire/shared_region.h"
#include "wire/token.h"

namespace headrace {

struct SessionOptions {
  Limits limits = {};
  std::string peer = {};         // as the stats show it
  const Token* token = nullptr;  // the server's, if it has one; outlives the session
  bool token_required = true;    // else a peer may show it, to have the server prove that it knows it
  Nonce nonce = {};              // random, never used before, where there is a token
  MakeRegion make_region = {};
  bool sees_end = false;  // a dead peer is closed at once: then no idle_wait after the first request
  bool yields = false;    // to other sessions of the same thread; else all received frames are handled at once
};

class Session {
 public:
  using Time = Deadline;
  // The kind of the next request, as far as it matters to other sessions of the same thread.
  enum class Place : std::uint8_t {
    kQuick,
    kSampling,  // gathers batches: from the first on, everything else of the session too
    kSlow,      // makes or drops a table, or makes or loads a shard, which takes as long as their files and memory do,
                // or inserts a huge chunk; this one request alone
    kShards,    // works on a shard's memory, from the first on; of lane() there are several
  };

  // The server outlives the session. `now`: when the peer connected.
  Session(Server& server, SessionOptions options, Time now);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool wants_input() const;
  std::span<std::byte> prepare();  // not empty; wants_input() must hold; void after the next call
  void commit(std::size_t count, Time now);

  std::span<const std::span<const std::byte>> output() { return output_.buffers(); }
  int output_descriptor() const { return output_.descriptor(); }
  void consumed(std::size_t count, Time now);

  bool blocked() const { return pending_.has_value() && !yielded_; }
  // Both need blocked(). Null: the table is gone, and resume() says so to the peer.
  std::shared_ptr<Table> blocked_on() const { return pending_->table.lock(); }
  std::uint64_t requests() const { return meter_->requests.load(); }  // so far, with the one that is held
  bool inserts() const { return std::holds_alternative<InsertRequest>(pending_->request); }
  Time deadline() const { return blocked() ? pending_->deadline : never(); }
  bool resume(Time now);  // true: not blocked any more

  bool yielded() const { return yielded_; }
  Place place() const { return place_; }
  // The lane of the shard requested last: work on other lanes does not wait for it.
  std::size_t lane() const { return lane_; }

  void expire(Time now);
  void excuse(Time::duration lost);  // so much time counts for nothing
  bool closing() const { return closing_; }
  bool broken() const { return broken_; }  // the peer does not take its output either
  bool proven() const { return proven_; }  // the peer has shown that it knows the token, or need not

 private:
  struct Block;        // memory that batches are gathered into
  struct Shared;       // and such that the peer reads
  struct SharedShard;  // and such for a shard's gradients and parameters
  struct InsertRequest {
    std::span<const std::byte> chunks;  // not stored yet; in input_, which stays as it is while the session is blocked
  };
  struct UpdateRequest {
    std::span<const std::byte> payload;  // keys, then priorities; where InsertRequest's are
    std::size_t count;
    std::size_t done = 0;
    std::uint64_t applied = 0;
  };
  struct Gathering {  // once the batch is drawn
    std::shared_ptr<Table> table;
    std::unique_ptr<Table::Draw> draw;
  };
  struct SampleRequest {
    std::uint32_t size;
    double importance_exponent;
    std::shared_ptr<Block> block;
    Gathering gathering = {};
  };
  struct SampleSharedRequest {
    std::uint32_t index;
    double importance_exponent;
    Gathering gathering = {};
  };
  enum class Progress : std::uint8_t { kDone, kHeld, kMore };  // more: after the turns of others
  struct Pending {
    FrameHeader header;
    std::weak_ptr<Table> table;  // one that is dropped goes
    Deadline deadline;
    std::variant<InsertRequest, UpdateRequest, SampleRequest, SampleSharedRequest> request;
  };

  void handle_frames();
  bool decode_front(std::span<const std::byte, kFrameHeaderBytes> bytes);
  void make_room();
  std::size_t front_frame_bytes() const;
  bool idle_too_long() const;
  void release_memory();
  void finish_front();
  bool yields_before(const FrameHeader& header);
  void handle(const FrameHeader& header, std::span<const std::byte> body);
  void dispatch(const FrameHeader& header, std::span<const std::byte> body);
  void dispatch_named(const FrameHeader& header, const std::string& name, BodyReader& body);
  void give_up(const FrameHeader& request, ErrorKind kind, std::string_view message);
  void run_out_of_memory(const FrameHeader& request);

  void hello(const FrameHeader& header, BodyReader& body);
  void authenticate(const FrameHeader& header, BodyReader& body);
  void update_priorities(const FrameHeader& header, const std::string& name, BodyReader& body);
  void publish(const FrameHeader& header, const std::string& name, BodyReader& body);
  void fetch(const FrameHeader& header, const std::string& name, BodyReader& body);
  void put(const FrameHeader& header, const std::string& name, BodyReader& body);
  void drain(const FrameHeader& header, const std::string& name, BodyReader& body);
  void stats(const FrameHeader& header);
  void open_table(const FrameHeader& header, const std::string& name, BodyReader& body);
  void set_state(const FrameHeader& header, const std::string& name, BodyReader& body);
  void claim(const FrameHeader& header, const std::string& name, BodyReader& body);

  std::shared_ptr<Shard> shard(const std::string& name);
  SharedShard& shared_of(const std::string& name, std::size_t bytes);
  void open_shard(const FrameHeader& header, const std::string& name, BodyReader& body);
  void push_gradient(const FrameHeader& header, const std::string& name, BodyReader& body);
  void fetch_shard(const FrameHeader& header, const std::string& name, BodyReader& body);
  void shard_state(const FrameHeader& header, const std::string& name);
  void load_shard(const FrameHeader& header, const std::string& name, BodyReader& body);
  void share_shard(const FrameHeader& header, const std::string& name);

  void share(const FrameHeader& header, const std::string& name, BodyReader& body);
  void begin_insert(const FrameHeader& header, const std::string& name, BodyReader& body);
  void fill(const std::string& name, const std::shared_ptr<Table>& table);
  std::shared_ptr<Table> filled_table(const std::string& name);
  void begin_sample(const FrameHeader& header, const std::string& name, BodyReader& body);
  void begin_sample_shared(const FrameHeader& header, const std::string& name, BodyReader& body);
  std::shared_ptr<Block> block_of(std::uint64_t bytes);
  Deadline deadline_after(std::int64_t wait_milliseconds) const;
  void try_pending();
  Progress attempt(const std::shared_ptr<Table>& table, InsertRequest& request);
  Progress attempt(const std::shared_ptr<Table>& table, UpdateRequest& request);
  Progress attempt(const std::shared_ptr<Table>& table, SampleRequest& request);
  Progress attempt(const std::shared_ptr<Table>& table, SampleSharedRequest& request);
  Progress gather(const std::shared_ptr<Table>& table, Gathering& gathering, const BatchView& view, double exponent);

  void reply(const FrameHeader& request, std::span<const std::byte> body);
  template <typename T>
  void reply_number(const FrameHeader& request, T number) {
    reply(request, std::as_bytes(std::span(&number, 1)));
  }
  // As reply(), but `later_bytes` of the body are pushed by the caller.
  void reply_head(const FrameHeader& request, std::span<const std::byte> body, std::uint64_t later_bytes);
  // As reply(), with what share_of_reply() gave for the body, which is held until it is sent. That throws kRefused.
  void reply_large(const FrameHeader& request, std::vector<std::byte> body, MemoryBudget::Share share);
  MemoryBudget::Share share_of_reply(std::size_t bytes);
  void push_body(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  void reply_nothing(const FrameHeader& request);
  void reply_error(const FrameHeader& request, ErrorKind kind, std::string_view message);
  void push(std::span<const std::byte> frame);
  void begin_output();  // all that waits for the peer now has a new deadline
  void push_region(const FrameHeader& request, std::uint64_t stride, const std::shared_ptr<SharedRegion>& region);

  Server& server_;
  const Limits limits_;
  const Token* const token_;
  const Nonce nonce_;
  const MakeRegion make_region_;
  const bool sees_end_;
  const bool yields_;
  const std::shared_ptr<ConnectionMeter> meter_;
  ReceiveBuffer input_;
  SendQueue output_;
  std::optional<FrameHeader> front_;  // header of the frame in front of input_, once it is there
  std::optional<Pending> pending_;

  std::shared_ptr<Block> block_;  // of the batch that is on its way, or was
  bool gathered_ = false;         // a batch, and no byte of output has been taken since
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<SharedShard> shared_shard_;
  std::map<std::string, std::shared_ptr<Claims::Hold>> claims_;
  std::map<std::string, std::weak_ptr<Table>> filled_;  // into which the peer inserts, by name
  std::optional<Publication> publication_;              // whose parts arrive
  struct Fetched {
    std::string name;
    std::shared_ptr<const Blob> blob;
  };
  std::optional<Fetched> fetched_;     // whose parts are sent
  std::optional<Nonce> client_nonce_;  // once the peer has said hello

  bool proven_;
  bool authenticated_ = false;  // the peer has shown the token
  bool yielded_ = false;
  Place place_ = Place::kQuick;
  Place home_ = Place::kQuick;  // where it is between slow requests
  std::size_t lane_ = 0;
  std::size_t spent_ = 0;       // units of work in this turn
  std::size_t output_due_ = 0;  // of the output
  std::size_t announced_ = 0;   // output_.bytes() at which the reply that was begun last is whole
  bool closing_ = false;
  bool broken_ = false;

  Time now_;              // as last passed
  Time connected_;        // when the peer connected
  Time input_deadline_;   // of the frame that has begun; every byte of it moves this on a little
  Time output_deadline_;  // of the first output_due_ bytes that wait for the peer, likewise
  Time request_since_;    // when a request last began or ended
};

}  // namespace headrace
