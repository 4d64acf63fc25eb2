#include "wire/stats_json.h"

#include <time.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kMaxClaims = 1000;  // listed by name

void append_string(std::string& json, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += kHex[static_cast<unsigned char>(c) >> 4];
      json += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      json += c;
    }
  }
  json += '"';
}

void append_value(std::string& json, auto value) {
  if (!std::isfinite(static_cast<double>(value))) {
    json += "null";
    return;
  }
  std::array<char, 32> digits;
  json.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

// One JSON object, member by member.
class Object {
 public:
  explicit Object(std::string& json) : json_(json) { json_ += '{'; }
  ~Object() { json_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::string& name(std::string_view name) {
    if (!first_) json_ += ", ";
    first_ = false;
    append_string(json_, name);
    return json_ += ": ";
  }
  void number(std::string_view name, auto value) { append_value(this->name(name), value); }
  void text(std::string_view name, std::string_view value) { append_string(this->name(name), value); }
  void flag(std::string_view name, bool value) { this->name(name) += value ? "true" : "false"; }

 private:
  std::string& json_;
  bool first_ = true;
};

// And one JSON array, item by item.
class Array {
 public:
  explicit Array(std::string& json) : json_(json) { json_ += '['; }
  ~Array() { json_ += ']'; }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::string& item() {
    if (!first_) json_ += ", ";
    first_ = false;
    return json_;
  }

 private:
  std::string& json_;
  bool first_ = true;
};

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

double cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void append_server(Object& object, Server& server) {
  const auto& budget = server.budget();
  object.number("instance", server.instance());
  object.number("uptime_seconds", seconds_since(server.since()));
  object.number("cpu_seconds", cpu_seconds());
  object.number("memory_bytes", budget.used());
  if (budget.limit() == MemoryBudget::kUnlimited) {
    object.name("memory_limit_bytes") += "null";
  } else {
    object.number("memory_limit_bytes", budget.limit());
  }
  object.text("data", server.data());
}

void append_table(std::string& json, const TableStats& stats) {
  Object object(json);
  object.number("size", stats.size);
  object.number("capacity", stats.capacity);
  object.number("inserts", stats.inserts);
  object.number("samples", stats.samples);
  object.number("updates", stats.updates);
  object.number("dropped_updates", stats.dropped_updates);
  object.number("evicted", stats.evicted);
  object.number("chunks", stats.chunks);
  object.number("used_bytes", stats.used_bytes);
  object.number("capacity_bytes", stats.capacity_bytes);
  object.number("samples_per_insert", stats.samples_per_insert);
  object.number("insert_blocked_seconds", stats.insert_blocked_seconds);
  object.number("sample_blocked_seconds", stats.sample_blocked_seconds);
  object.number("max_priority", stats.max_priority);
  object.number("total_weight", stats.total_weight);
  object.number("recovered", stats.recovered);
  object.number("lost", stats.lost);
  object.text("state", stats.closed ? "closed" : stats.paused ? "paused" : "open");
}

void append_tables(std::string& json, Server& server) {
  Object tables(json);
  for (const auto& name : server.table_names()) {
    try {
      const auto stats = server.table(name)->stats();
      append_table(tables.name(name), stats);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;  // else it was dropped since its name was listed
    }
  }
}

void append_parameters(std::string& json, Server& server) {
  Object parameters(json);
  for (const auto& [name, blob] : server.parameters().list()) {
    Object entry(parameters.name(name));
    entry.number("version", blob->version);
    entry.number("bytes", blob->bytes.size());
  }
}

void append_shard(std::string& json, const Shard& shard) {
  const auto& options = shard.options();
  const auto stats = shard.stats();
  Object object(json);
  object.number("size", options.size);
  object.text("optimizer", options.optimizer.encode());
  object.text("policy", ShardOptions::name_of(options.policy));
  object.number("bytes", shard.state_bytes());
  object.number("version", stats.version);
  object.number("saved_version", stats.saved_version);
  object.number("lost", stats.lost);
  object.number("accepted", stats.accepted);
  object.number("dropped", stats.dropped);
  object.number("refused", stats.refused);
  object.number("apply_seconds", stats.apply_seconds);
  Array staleness(object.name("staleness"));
  std::size_t bins = stats.staleness.size();
  while (bins > 0 && stats.staleness[bins - 1] == 0) --bins;
  for (std::size_t i = 0; i < bins; ++i) append_value(staleness.item(), stats.staleness[i]);
}

void append_shards(std::string& json, Server& server) {
  Object shards(json);
  for (const auto& [name, shard] : server.shards().list()) append_shard(shards.name(name), *shard);
}

void append_mailboxes(std::string& json, const Server& server) {
  Object mailboxes(json);
  for (const auto& [name, mailbox] : server.mailboxes()) {
    const auto stats = mailbox->stats();
    Object entry(mailboxes.name(name));
    entry.number("messages", stats.messages);
    entry.number("bytes", stats.bytes);
    entry.number("received", stats.received);
    entry.number("dropped", stats.dropped);
  }
}

void append_connection(std::string& json, const ConnectionMeter& meter) {
  Object object(json);
  object.text("peer", meter.peer);
  object.number("seconds", seconds_since(meter.since));
  object.number("requests", meter.requests.load());
  object.number("received_bytes", meter.received_bytes.load());
  object.number("sent_bytes", meter.sent_bytes.load());
  object.flag("blocked", meter.blocked.load());
}

}  // namespace

std::string stats_json(Server& server) {
  std::string json;
  {
    Object root(json);
    append_server(root, server);
    append_tables(root.name("tables"), server);
    append_parameters(root.name("parameters"), server);
    append_shards(root.name("shards"), server);
    append_mailboxes(root.name("mailboxes"), server);
    root.number("claim_count", server.claims().size());
    {
      Array claims(root.name("claims"));
      for (const auto& name : server.claims().held(kMaxClaims)) append_string(claims.item(), name);
    }
    Array connections(root.name("connections"));
    for (const auto& meter : server.meters()) append_connection(connections.item(), *meter);
  }
  return json;
}

}  // namespace headrace
