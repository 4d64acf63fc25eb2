#include "io/posted_inserts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/chunk.h"

namespace headrace {

std::span<const std::byte> append_header(std::vector<std::byte>& payload, std::span<const std::byte> chunk,
                                         std::uint64_t writer, std::uint64_t sequence) {
  ChunkHeader header;
  if (chunk.size() < sizeof(header)) return chunk;
  std::memcpy(&header, chunk.data(), sizeof(header));
  header.writer = writer;
  header.sequence = sequence;
  const auto bytes = std::as_bytes(std::span(&header, 1));
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  return chunk.subspan(sizeof(header));
}

void PostedInserts::add(const std::string& table, std::span<const std::byte> chunk, std::uint64_t sequence) {
  auto& [name, payload, chunks] = request_for(table, chunk.size());
  const auto rest = append_header(payload, chunk, writer_, sequence);
  payload.insert(payload.end(), rest.begin(), rest.end());
  ++chunks;
  ++chunks_;
  bytes_ += chunk.size();
}

// Of requests that are not under way, the last one of the table, if it has room: a table counts sequences by itself, so
// chunks may pass those of other tables.
PostedInserts::Request& PostedInserts::request_for(const std::string& table, std::size_t bytes) {
  const auto end = requests_.rend() - (under_way_ ? 1 : 0);
  const auto last = std::find_if(requests_.rbegin(), end, [&](const Request& each) { return each.table == table; });
  if (last != end && last->payload.size() + bytes <= most_request_bytes_) return *last;
  auto& request = requests_.emplace_back(Request{.table = table});
  append_number(request.payload, std::int64_t{kLongestWait.count()});
  bytes_ += request.payload.size();
  return request;
}

bool PostedInserts::advance(ClientConnection& connection, bool wait) {
  const auto& [table, payload, chunks] = requests_.front();
  try {
    for (bool stored = false; !stored;) {
      if (!under_way_) {
        connection.take_posted();  // so that the next reply is the insert's
        connection.send(MessageType::kInsert, table, payload);
        under_way_ = true;
        if (!wait) return false;  // the answer needs a while
      }
      if (!wait && !connection.has_input()) return false;
      const auto reply = connection.receive(MessageType::kInsert, kLongestWait);
      under_way_ = false;
      stored = reply.status != kNothing;  // else the server's limiter still holds it
      if (stored) connection.receive_number<std::uint64_t>(reply);
    }
  } catch (const ConnectionLost&) {
    throw;
  } catch (const Error& error) {
    if (!connection.is_open()) throw;
    under_way_ = false;
    if (!error_) error_ = error;
  }
  chunks_ -= chunks;
  bytes_ -= payload.size();
  requests_.pop_front();
  return true;
}

void PostedInserts::throw_error() {
  if (error_) throw *std::exchange(error_, std::nullopt);
}

}  // namespace headrace
