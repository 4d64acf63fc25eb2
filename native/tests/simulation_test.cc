// Deterministic simulation: a server and several clients in one thread, under a scheduler, a clock and a network that
// all follow from a seed. Clients are the real ones, on fibers; the server has real sessions, schedulers, tables and
// files. Connections deliver in pieces, stall and break at any byte, and the server is killed between any two writes of
// its file, or loses power.
//
// HEADRACE_SEEDS: how many to run (300, fewer under a sanitizer), from HEADRACE_FIRST_SEED (1) on.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "io/client.h"
#include "simulated_server.h"
#include "simulation_ledger.h"
#include "trials.h"

namespace headrace::testing {
namespace {

constexpr std::uint64_t kMostSteps = 500'000;        // of a run
constexpr auto kLongestRun = std::chrono::hours(4);  // of simulated time

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view digits(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  require(error == std::errc() && end == digits.data() + digits.size() && value > 0,
          std::string(name) + " is \"" + text + "\"; a whole number above 0 is required");
  return value;
}

// What a seed decides before the run.
struct Plan {
  explicit Plan(Chance& chance) {
    actors = chance.between(1, 3);
    learners = chance.between(1, 2);
    requests = chance.between(4, 24);
    table.signature = fixtures::small_signature();
    table.seed = chance.number();
    table.priority_exponent = 1;
    if (chance.one_in(3)) table.sampler = Sampler::kUniform;
    if (!chance.one_in(3)) table.path = "a file";
    evicts = chance.one_in(2);
    table.capacity = evicts ? chance.between(16, 64) : 4096;
    if (evicts && chance.one_in(2)) table.capacity_bytes = chance.between(1, 4) * 1024;
    if (chance.one_in(2)) {
      table.limiter.samples_per_insert = std::array{0.5, 1.0, 4.0}[chance.below(3)];
      table.limiter.tolerance = chance.one_in(2) ? 0 : static_cast<double>(chance.between(kBatch, 4 * kBatch));
    }
    table.limiter.min_size = chance.between(1, 8);
    cuts = chance.one_in(2);
    stalls = chance.one_in(2);
    kills = chance.one_in(2);
    power = chance.one_in(4);
    faults = chance.below(8);
    fault_every = std::uint64_t{1} << chance.between(4, 9);
  }

  static constexpr std::uint64_t kBatch = 8;
  static constexpr std::uint32_t kMostSteps = 8;  // of a chunk

  std::uint64_t actors, learners, requests;
  TableOptions table;
  bool evicts;
  bool cuts, stalls, kills, power;
  std::uint64_t faults, fault_every;
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : simulation(seed),
        plan_(simulation.chance),
        network_(simulation),
        ledger_(simulation.chance, plan_.evicts),
        server_(network_, plan_.table) {
    server_.after_crash = [this](const Remains& remains) { check_remains(remains); };
  }

  ~World() { simulation.cancel(); }  // fibers use the members, which end before the simulation
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run();

  Simulation simulation;

 private:
  struct Connected {  // a client with its network, which ends when it has no more requests
    Connected(World& world, std::uint64_t number) : network(world.network_, number), client(options(network)) {}
    static ClientOptions options(ClientNetwork& network) {
      ClientOptions options;
      options.address = "tcp://127.0.0.1:1";
      options.connect_timeout = options.reconnect_timeout = kLongestRun;
      options.network = &network;
      return options;
    }
    ClientOfSimulation network;
    Client client;
  };

  void act(std::uint64_t number);
  void learn(std::uint64_t number);
  void update(Client& client, std::uint64_t number, const fixtures::Buffers& batch);
  void check_batch(const fixtures::Buffers& batch);
  void fault();
  void pass_time();
  void check_remains(const Remains& remains);
  Contents contents_of_image(const std::string& image, std::uint64_t& next_key);
  void check_end();

  Plan plan_;
  SimulatedNetwork network_;
  Ledger ledger_;
  SimulatedServer server_;
  std::uint64_t acting_ = 0;
  std::uint64_t faults_ = 0;
};

// Inserts in the ways that a client has.
void World::act(std::uint64_t number) {
  Chance& chance = simulation.chance;
  Connected connected(*this, number);
  Client& client = connected.client;
  std::vector<std::size_t> posted;
  const auto settle = [&] {
    client.settle();
    for (const std::size_t chunk : std::exchange(posted, {})) ledger_.acknowledge(chunk);
  };
  for (std::uint64_t request = 0; request < plan_.requests; ++request) {
    std::vector<std::size_t> ids;
    std::vector<Bytes> chunks;
    for (std::uint64_t i = 0, count = chance.one_in(2) ? 1 : chance.between(1, 4); i < count; ++i) {
      auto [id, bytes] = ledger_.make_chunk(static_cast<std::uint32_t>(chance.between(1, Plan::kMostSteps)));
      ids.push_back(id);
      chunks.push_back(std::move(bytes));
    }
    const std::vector<std::span<const std::byte>> parts(chunks.begin(), chunks.end());
    if (chance.one_in(2)) {
      require(client.post_chunks(SimulatedServer::kTable, parts, true), "chunks were not taken");
      posted.insert(posted.end(), ids.begin(), ids.end());
      if (chance.one_in(4)) settle();
    } else {
      const bool power_lost = ledger_.power_lost();
      const std::uint64_t key = client.insert(SimulatedServer::kTable, parts);
      if (power_lost == ledger_.power_lost() && !power_lost) ledger_.acknowledge(ids.back(), key);
      for (const std::size_t id : ids) ledger_.acknowledge(id);
      for (const std::size_t id : std::exchange(posted, {})) ledger_.acknowledge(id);
    }
    if (chance.one_in(2)) simulation.sleep(chance.duration(milliseconds(1), seconds(2)));
  }
  settle();
  --acting_;
  connected.network.leaving = true;
  client.close();
}

// Samples and sets priorities until all actors have ended.
void World::learn(std::uint64_t number) {
  Chance& chance = simulation.chance;
  Connected connected(*this, number);
  Client& client = connected.client;
  while (acting_ > 0) {
    fixtures::Buffers batch(fixtures::small_signature(), static_cast<std::uint32_t>(chance.between(1, Plan::kBatch)));
    const milliseconds wait{std::array{0, 50, 3000, 25000}[chance.below(4)]};
    if (client.sample(SimulatedServer::kTable, fixtures::small_signature(), batch.view, 0.5, wait)) {
      check_batch(batch);
      if (chance.one_in(2)) update(client, number, batch);
    } else if (wait < milliseconds(50)) {
      simulation.sleep(milliseconds(20));
    }
    if (chance.one_in(32)) {
      client.set_state(SimulatedServer::kTable, TableState::kPaused);
      simulation.sleep(chance.duration(milliseconds(1), seconds(20)));
      client.set_state(SimulatedServer::kTable, TableState::kOpen);
    }
    if (chance.one_in(2)) simulation.sleep(chance.duration(milliseconds(1), seconds(1)));
  }
  client.settle();
  connected.network.leaving = true;
  client.close();
}

void World::check_batch(const fixtures::Buffers& batch) {
  const auto pair = [](const std::vector<std::byte>& bytes, std::size_t i) {
    return std::array{fixtures::Buffers::value<float>(bytes, 2 * i), fixtures::Buffers::value<float>(bytes, 2 * i + 1)};
  };
  for (std::size_t i = 0; i < batch.key.size(); ++i) {
    if (!ledger_.power_lost()) ledger_.see(batch.key[i], batch.policy_version[i]);
    ledger_.check_transition(batch.policy_version[i], batch.reward[i],
                             fixtures::Buffers::value<std::int32_t>(batch.action, i), pair(batch.observation, i),
                             pair(batch.next_observation, i));
  }
}

// Of the transitions that are this learner's: no other sets theirs.
void World::update(Client& client, std::uint64_t number, const fixtures::Buffers& batch) {
  std::map<std::uint64_t, std::uint64_t> tags;  // by key
  for (std::size_t i = 0; i < batch.key.size(); ++i) {
    if (batch.policy_version[i] % plan_.learners == number % plan_.learners)
      tags[batch.key[i]] = batch.policy_version[i];
  }
  std::vector<std::uint64_t> keys;
  std::vector<float> priorities;
  for (const auto& [key, tag] : tags) {
    keys.push_back(key);
    priorities.push_back(static_cast<float>(simulation.chance.between(1, Ledger::kMostPriority)));
    ledger_.begin_update(tag, priorities.back());
  }
  if (simulation.chance.one_in(3)) return client.post_priorities(SimulatedServer::kTable, keys, priorities);
  // An earlier connection, whose bytes are late, may still bring older priorities.
  const std::uint64_t connections = client.reconnections();
  const bool alone = server_.connections_of(number) <= 1;
  const std::uint64_t applied = client.update_priorities(SimulatedServer::kTable, keys, priorities);
  if (!alone || client.reconnections() != connections || applied != keys.size()) return;
  for (std::size_t i = 0; i < keys.size(); ++i) ledger_.end_update(tags[keys[i]], priorities[i]);
}

void World::fault() {
  Chance& chance = simulation.chance;
  if (faults_ >= plan_.faults || !chance.one_in(plan_.fault_every)) return;
  ++faults_;
  const auto connections = server_.all_connections();
  if (plan_.cuts && !connections.empty() && chance.one_in(2)) {
    network_.cut(*connections[chance.below(connections.size())]);
  }
  if (plan_.stalls && !connections.empty() && chance.one_in(2)) {
    network_.stall(*connections[chance.below(connections.size())]);
  }
  if (plan_.kills && chance.one_in(2)) server_.arm();
  if (!plan_.power || !server_.up() || !chance.one_in(2)) return;
  if (chance.one_in(3)) return server_.keep_flushed();
  server_.lose_power();
}

void World::pass_time() {
  if (simulation.chance.one_in(8)) server_.check_held();
  const Time next = std::min(simulation.next_time(), server_.next_time());
  require(next != never(), "nothing will ever happen");
  simulation.pass_until(next);
}

void World::run() {
  for (std::uint64_t i = 0; i < plan_.actors; ++i, ++acting_) simulation.start([this, i] { act(i); });
  for (std::uint64_t i = 0; i < plan_.learners; ++i) simulation.start([this, i] { learn(plan_.actors + i); });
  Choices choices;
  for (std::uint64_t step = 0; !simulation.all_ended() || server_.connections() > 0 || !network_.connections.empty();
       ++step) {
    require(step < kMostSteps, "the run does not end");
    require(simulation.now() - later(0) < kLongestRun, "the clients do not get on");
    choices.clear();
    simulation.offer(choices);
    server_.offer(choices);
    if (choices.empty()) {
      pass_time();
      continue;
    }
    choices[simulation.chance.below(choices.size())]();
    simulation.pass(microseconds(simulation.chance.below(50)));
    fault();
  }
  check_end();
}

Contents World::contents_of_image(const std::string& image, std::uint64_t& next_key) {
  const fixtures::MemoryFile file(image);
  auto options = shown(plan_.table, ledger_.power_lost());
  options.path = file.path();
  Table table(options);
  require(table.stats().lost == 0 || ledger_.power_lost(), "transitions are lost, but power was not");
  auto contents = contents_of(table);
  if (!contents.empty()) {
    next_key = contents.rbegin()->first + 1;
  } else {
    next_key = *table.try_insert(fixtures::PlainChunk::of(1, 1).bytes(plan_.table.signature));
  }
  return contents;
}

void World::check_remains(const Remains& remains) {
  std::uint64_t next_key = 0;
  if (plan_.evicts) ledger_.forget_writers();
  if (!remains.power_loss) {
    const auto contents = contents_of_image(remains.image, next_key);
    return ledger_.check(contents, next_key);
  }
  ledger_.lose_power();
  const auto found = contents_of_image(remains.image, next_key);
  ledger_.check(found, next_key);
  std::set<std::uint64_t> tags;
  for (const auto& [key, stored] : found) tags.insert(stored.tag);
  const auto flushed = contents_of_image(remains.flushed, next_key);
  for (const auto& [key, stored] : contents_of_image(remains.crashed, next_key)) {
    const auto before = flushed.find(key);
    if (before == flushed.end() || before->second.tag != stored.tag) continue;
    require(tags.contains(stored.tag), "a chunk that was on the disk is lost");
  }
}

void World::check_end() {
  if (server_.up()) server_.check_gone();  // else it was killed when all clients had left, and its file is there
  Contents contents;
  std::uint64_t next_key = 0;
  if (server_.persistent()) {
    contents = contents_of_image(server_.image(), next_key);
  } else {
    const fixtures::MemoryFile snapshot;
    server_.table().save(snapshot.path());
    Table table(shown(plan_.table, ledger_.power_lost()));
    table.restore(snapshot.path());
    contents = contents_of(table);
    next_key = contents.rbegin()->first + 1;
  }
  ledger_.check(contents, next_key);
  if (!ledger_.power_lost()) ledger_.check_sum(next_key);
}

// Runs a seed; a failure shows its last events and the command that repeats it.
void check_seed(std::uint64_t seed) {
  std::optional<World> world;
  try {
    world.emplace(seed);
    world->run();
  } catch (const std::exception& failure) {
    for (const auto& event : world ? world->simulation.events() : std::deque<Simulation::Event>()) {
      const auto at = std::chrono::duration<double, std::milli>(event.at - later(0)).count();
      std::fprintf(stderr, "%12.3f ms  %-16s %llu %llu\n", at, event.what, static_cast<unsigned long long>(event.id),
                   static_cast<unsigned long long>(event.amount));
    }
    FAIL("seed " << seed << ": " << std::string(failure.what()) << "; to repeat it: make simulate FIRST_SEED=" << seed
                 << " SEEDS=1");
  }
}

}  // namespace

TEST_CASE("simulation: under any faults, acknowledged chunks are there once, and no request is lost") {
  const std::uint64_t first = setting("HEADRACE_FIRST_SEED", 1), count = setting("HEADRACE_SEEDS", trials(300));
  const std::clock_t began = std::clock();
  for (std::uint64_t seed = first; seed < first + count; ++seed) check_seed(seed);
  const double seconds_taken = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  std::printf("simulation: %llu seeds from %llu, %.0f in a minute of one core\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
              60 * static_cast<double>(count) / seconds_taken);
}

TEST_CASE("simulation: a repeated insert goes on when the one in front of it ends") {
  check_seed(159'353);  // with its connection
  check_seed(925'960);  // at its deadline
}

TEST_CASE("simulation: the ledger misses an acknowledged chunk, unless chunks may be evicted") {
  Chance chance(1);
  for (const bool evicts : {false, true}) {
    Ledger ledger(chance, evicts);
    const auto [id, bytes] = ledger.make_chunk(2);
    ledger.check({}, 0);
    ledger.acknowledge(id);
    if (evicts) {
      ledger.check({}, 0);
    } else {
      CHECK_THROWS(ledger.check({}, 0));
    }
  }
}

TEST_CASE("simulation: settings are whole numbers above 0") {
  const char* const name = "HEADRACE_TEST_SETTING";
  CHECK(setting(name, 7) == 7);
  setenv(name, "12", 1);
  CHECK(setting(name, 7) == 12);
  for (const char* const wrong : {"", "0", "1e6", "all", "-1", " 3"}) {
    setenv(name, wrong, 1);
    CHECK_THROWS(setting(name, 7));
  }
  unsetenv(name);
}

TEST_CASE("simulation: a seed repeats its run") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::set<std::uint64_t> digests;
    for (int run = 0; run < 2; ++run) {
      World world(seed);
      world.run();
      digests.insert(world.simulation.digest());
    }
    CHECK(digests.size() == 1);
  }
}

}  // namespace headrace::testing
