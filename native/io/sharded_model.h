// A model's parameters as shards of one or several servers, as one of its workers sees them: gradients go out to all
// shards before the first answer is awaited, so that they are applied at once.
//
// Over a Unix socket gradients and parameters lie in memory shared with the server, and only small frames travel; over
// TCP they are sent from, and received into, the caller's arrays. A connection that is lost, or an answer that does not
// come in time, is not an error within `reconnect_timeout`: the request is repeated, and nothing is applied twice.
//
// A model's version is that of its first shard. The shards' agree where every gradient came to the same in all of them:
// one that is not finite is refused by all; one that comes late may be dropped by some and applied by others.
//
// Threading: one thread at a time; count(), shared(), reconnections() and close() from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shard.h"
#include "io/client_options.h"

namespace headrace {

class ShardedModel {
 public:
  static constexpr std::size_t kMaxShards = 1024;

  // `share`: over Unix sockets gradients lie in shared memory; else they go through the socket there too.
  // `addresses`: shard i is on the i-th of them, starting over with the first if there are fewer addresses than shards.
  // `options.address` is not used. The shards' names are "NAME/0", "NAME/1", ...; of `count` parameters each has count
  // / shards, the first ones one more. Throws kInvalid, and as Client.
  ShardedModel(const ClientOptions& options, const std::vector<std::string>& addresses, const std::string& name,
               std::size_t count, std::size_t shards, bool share = true);
  ~ShardedModel();

  // Makes the shards of `initial` (empty: they must exist, kNotFound), with `options` except the size. Where not
  // `fresh`, those that are there stay as they are. Returns the version. Parameters must be fetched before the first
  // push. kInvalid: a shard's state does not fit into a frame.
  std::uint64_t open(const ShardOptions& options, std::span<const float> initial, bool fresh);

  // Applies a gradient that was computed at the parameters fetched last. Staleness and verdict are the worst of the
  // shards'. kInvalid where none were fetched.
  PushResult push(std::span<const float> gradient);
  // Brings `parameters`, as the last call left them, up to date: their version, or nullopt where nothing is newer.
  std::optional<std::uint64_t> fetch(std::span<float> parameters);

  // Parameters, then the vectors of optimizer state, each as long: [vectors() * count()]. load() replaces them for all
  // workers. Both after open(), else kInvalid.
  std::size_t vectors() const;
  std::uint64_t state(std::span<float> values);
  void load(std::uint64_t version, std::span<const float> values);

  std::size_t count() const;
  bool shared() const;  // every shard's gradients lie in shared memory
  std::uint64_t reconnections() const;
  void close();

 private:
  struct Part;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
