// The sessions of one thread whose requests a table holds back: a queue for each table, and the deadlines.
//
// Sessions are known by the ids of their connections, and tried again by a function of the owner, so that this class
// needs neither sockets nor sessions. The longest held are first. An insert that is held again holds those behind it,
// which are not even tried; samples are all tried, since a smaller batch may be allowed before a larger one. Where an
// insert goes without being stored, at its deadline or with its connection, the next is tried: the table may have
// stored that chunk meanwhile, from an earlier connection of its writer.
//
// Threading: one thread; wakers of tables call `wake` from any, also after this object is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/table.h"

namespace headrace {

class HeldSessions {
 public:
  using Id = std::uint64_t;
  static constexpr int kInsertsPerTurn = 64;

  struct Hold {
    std::shared_ptr<Table> table;  // null: it is gone, which the session must report
    std::uint64_t request;         // number of the request, to tell it from the next one
    bool inserts;                  // else it samples
    Deadline deadline;
  };
  using Resume = std::function<void(Id)>;

  explicit HeldSessions(std::function<void()> wake) : wake_(std::move(wake)) {}  // so that resume_ready() is called
  ~HeldSessions();
  HeldSessions(const HeldSessions&) = delete;
  HeldSessions& operator=(const HeldSessions&) = delete;

  // A session is held from now on, or still: a request keeps its place in the queue.
  void add(Id id, const Hold& hold);
  void remove(Id id);  // it is not, or never was
  void leave(Id id);   // it ends, held or not
  std::size_t size() const { return held_.size(); }
  Deadline next_deadline() const { return deadlines_.empty() ? never() : deadlines_.begin()->first; }

  // Calls `resume`, which calls add() or remove(), for the sessions whose table woke or is gone, and for those whose
  // deadline has come.
  void resume_ready(Deadline now, const Resume& resume);
  void forget_idle_tables();  // for which no session waits

 private:
  using Ticket = std::uint64_t;
  struct Queue {
    std::uint64_t waker = 0;
    std::shared_ptr<std::atomic<bool>> woken = std::make_shared<std::atomic<bool>>(true);
    std::map<Ticket, Id> inserts, samples;
  };
  using Queues = std::map<std::weak_ptr<Table>, Queue, std::owner_less<>>;  // a dropped table is not kept
  struct Held {
    Queues::iterator queue;
    std::map<Ticket, Id>* line;  // of the queue
    Ticket ticket;
    std::uint64_t request;
    Deadline deadline;
  };

  Queue* led_by(Id id);  // the queue whose inserts it holds back; null if it is not the first of several
  Queues::iterator queue_of(const std::shared_ptr<Table>& table);
  void resume_inserts(Queue& queue, const Resume& resume);

  const std::function<void()> wake_;
  Queues queues_;
  std::unordered_map<Id, Held> held_;
  std::set<std::pair<Deadline, Id>> deadlines_;
  std::vector<Id> orphans_;  // whose table is gone
  Ticket next_ticket_ = 0;
};

}  // namespace headrace
