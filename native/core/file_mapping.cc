#include "core/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/mutex.h"

namespace headrace {

// Reused, and never freed: the handler may read it at any time.
struct FileMapping::Watched {
  std::atomic<std::uintptr_t> begin = 0, end = 0;  // both 0: free
  std::array<char, PATH_MAX + 256> line{};
  std::size_t length = 0;
  Watched* next = nullptr;
};

// The mappings and their handler, which only reads atomics and calls functions that are async-signal-safe.
class FileMapping::Watch {
 public:
  static Watched* add(const std::byte* begin, std::size_t bytes, const std::string& name) EXCLUDES(mutex_) {
    const LockGuard lock(mutex_);
    install();
    Watched* entry = first_.load();
    while (entry != nullptr && entry->end.load() != 0) entry = entry->next;
    const bool is_new = entry == nullptr;
    if (is_new) entry = new Watched;
    constexpr std::string_view kStart = "headrace: error: ";
    constexpr std::string_view kReason =
        " has a page that can't be read or written: its disk fails or is full, or the file was cut short; the process "
        "ends\n";
    const std::size_t room = entry->line.size() - kStart.size() - kReason.size();
    const std::string line = std::string(kStart) + name.substr(0, room) + std::string(kReason);
    entry->length = line.copy(entry->line.data(), line.size());
    entry->begin = reinterpret_cast<std::uintptr_t>(begin);
    entry->end = entry->begin + bytes;
    if (is_new) {
      entry->next = first_.load();
      first_ = entry;
    }
    return entry;
  }

  static void remove(Watched* entry) EXCLUDES(mutex_) {
    const LockGuard lock(mutex_);
    entry->begin = entry->end = 0;
  }

 private:
  static void install() REQUIRES(mutex_) {
    if (installed_) return;
    sigaction(SIGBUS, nullptr, &previous_);
    struct sigaction own {};
    own.sa_sigaction = handle;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&own.sa_mask);
    sigaction(SIGBUS, &own, nullptr);
    installed_ = true;
  }

  static void handle(int number, siginfo_t* info, void* context) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const bool is_fault = info->si_code > 0;  // and not sent by a process
    for (const Watched* entry = first_.load(); is_fault && entry != nullptr; entry = entry->next) {
      if (at < entry->begin.load() || at >= entry->end.load()) continue;
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, entry->line.data(), entry->length);
      _exit(kExitCode);
    }
    pass_on(number, info, context, is_fault);
  }

  static void pass_on(int number, siginfo_t* info, void* context, bool is_fault) {
    if ((previous_.sa_flags & SA_SIGINFO) != 0) return previous_.sa_sigaction(number, info, context);
    if (previous_.sa_handler == SIG_IGN && !is_fault) return;
    if (previous_.sa_handler != SIG_DFL && previous_.sa_handler != SIG_IGN) return previous_.sa_handler(number);
    struct sigaction standard {};  // the process ends as without this handler; a fault can't be ignored
    standard.sa_handler = SIG_DFL;
    sigaction(number, &standard, nullptr);
    raise(number);
  }

  static inline Mutex mutex_;
  static inline bool installed_ GUARDED_BY(mutex_) = false;
  static inline struct sigaction previous_ {};  // written once, before the handler is installed
  static inline std::atomic<Watched*> first_ = nullptr;
};

FileMapping::FileMapping(int descriptor, std::size_t bytes, const std::string& name) : bytes_(bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kSystem,
                name + ": " + std::to_string(bytes) + " bytes can't be mapped: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(memory);
  watched_ = Watch::add(data_, bytes, name);
}

FileMapping::~FileMapping() {
  Watch::remove(watched_);
  munmap(data_, bytes_);
}

bool FileMapping::flush() const { return msync(data_, bytes_, MS_SYNC) == 0; }

}  // namespace headrace
