#include "io/user_space.h"

#include <dlfcn.h>

#include <string_view>
#include <utility>

#include "core/mutex.h"

namespace headrace {
namespace {

constexpr const char* kInstall = "; run `make bypass` in a checkout of Headrace, which builds it and what it needs";

[[noreturn]] void refuse(const Address& address, const std::string& what) {
  throw Error(ErrorKind::kInvalid, "address '" + address.text() + "': " + what);
}

class Library {
 public:
  void set_path(std::string path) EXCLUDES(mutex_) {
    const LockGuard lock(mutex_);
    path_ = std::move(path);
  }

  UserSpaceTcp& tcp(const Address& address) EXCLUDES(mutex_) {
    const LockGuard lock(mutex_);
    if (entry_ == nullptr) load(address);
    return *entry_();
  }

 private:
  void load(const Address& address) REQUIRES(mutex_) {
    void* const library = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      const char* const reason = ::dlerror();
      refuse(address, "the library of clients without the kernel can't be loaded (" +
                          std::string(reason != nullptr ? reason : "unknown error") + ")" + kInstall);
    }
    entry_ = reinterpret_cast<UserSpaceEntry>(::dlsym(library, kUserSpaceEntry));
    if (entry_ == nullptr) refuse(address, path_ + " belongs to another version of Headrace" + kInstall);
  }

  Mutex mutex_;
  std::string path_ GUARDED_BY(mutex_) = "libheadrace-bypass-client.so";
  UserSpaceEntry entry_ GUARDED_BY(mutex_) = nullptr;
};

Library& library() {
  static Library only;
  return only;
}

// Other ports than those that connect two processes belong to the server's machine: the kernel's TCP reaches them.
void check_kind(const Address& address) {
  const std::string_view kind = std::string_view(address.name).substr(0, address.name.find(','));
  if (kind == "memif" || kind == "vhost") return;
  refuse(address, "kind '" + std::string(kind) +
                      "': a client requires memif or vhost; a server on a network interface is reached through "
                      "tcp://IP:PORT");
}

}  // namespace

void set_user_space_library(std::string path) { library().set_path(std::move(path)); }

std::unique_ptr<Transport> connect_user_space(const Address& address, std::chrono::milliseconds timeout,
                                              const Interrupt& interrupt) {
  check_kind(address);
  auto answer = library().tcp(address).connect(address.text(), timeout, interrupt);
  if (answer.transport) return std::move(answer.transport);
  if (answer.error) throw Error(*answer.error, answer.message);
  throw ConnectionLost(answer.message);
}

}  // namespace headrace
