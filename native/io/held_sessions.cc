#include "io/held_sessions.h"

#include <algorithm>

namespace headrace {

HeldSessions::~HeldSessions() {
  for (const auto& [key, queue] : queues_) {
    if (const auto table = key.lock()) table->remove_waker(queue.waker);
  }
}

HeldSessions::Queues::iterator HeldSessions::queue_of(const std::shared_ptr<Table>& table) {
  const auto [found, is_new] = queues_.try_emplace(table);
  if (!is_new) return found;
  try {
    found->second.waker = table->add_waker([woken = found->second.woken, wake = wake_] {
      woken->store(true);
      wake();
    });
  } catch (...) {
    queues_.erase(found);
    throw;
  }
  wake_();  // the table may have changed before it knew of us: `woken` is true
  return found;
}

void HeldSessions::add(Id id, const Hold& hold) {
  const auto known = held_.find(id);
  if (known != held_.end() && known->second.request == hold.request && hold.table) return;
  remove(id);
  if (!hold.table) {
    orphans_.push_back(id);
    return wake_();
  }
  const auto queue = queue_of(hold.table);
  auto& line = hold.inserts ? queue->second.inserts : queue->second.samples;
  const Ticket ticket = next_ticket_++;
  held_.emplace(id, Held{queue, &line, ticket, hold.request, hold.deadline});
  line.emplace(ticket, id);
  if (hold.deadline != never()) deadlines_.emplace(hold.deadline, id);
}

void HeldSessions::remove(Id id) {
  std::erase(orphans_, id);
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  const Held& held = found->second;
  held.line->erase(held.ticket);
  deadlines_.erase({held.deadline, id});
  held_.erase(found);
}

HeldSessions::Queue* HeldSessions::led_by(Id id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return nullptr;
  Queue& queue = found->second.queue->second;
  const bool leads = queue.inserts.size() > 1 && queue.inserts.begin()->second == id;
  return leads ? &queue : nullptr;
}

void HeldSessions::leave(Id id) {
  if (const Queue* const led = led_by(id)) {
    led->woken->store(true);
    wake_();
  }
  remove(id);
}

void HeldSessions::resume_ready(Deadline now, const Resume& resume) {
  std::vector<Id> ready = orphans_;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    ready.push_back(id);
  }
  orphans_.clear();
  for (const Id id : ready) {
    const Queue* const led = led_by(id);
    resume(id);
    if (led != nullptr && led_by(id) != led) led->woken->store(true);
  }
  for (auto& [table, queue] : queues_) {
    if (!queue.woken->load()) continue;
    ready.clear();
    for (const auto& [ticket, id] : queue.samples) ready.push_back(id);
    queue.woken->store(false);  // from here on nothing throws but `resume`
    for (const Id id : ready) {
      if (held_.contains(id)) resume(id);
    }
    resume_inserts(queue, resume);
  }
}

void HeldSessions::resume_inserts(Queue& queue, const Resume& resume) {
  for (int left = kInsertsPerTurn; !queue.inserts.empty(); --left) {
    if (left == 0) {  // the rest after other sessions have had their turn
      queue.woken->store(true);
      return wake_();
    }
    const auto [ticket, id] = *queue.inserts.begin();
    resume(id);
    if (!queue.inserts.empty() && queue.inserts.begin()->first == ticket) return;
  }
}

void HeldSessions::forget_idle_tables() {
  std::erase_if(queues_, [](const auto& entry) {
    const auto& [key, queue] = entry;
    if (!queue.inserts.empty() || !queue.samples.empty()) return false;
    if (const auto table = key.lock()) table->remove_waker(queue.waker);
    return true;
  });
}

}  // namespace headrace
