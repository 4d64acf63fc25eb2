#include "io/shared_memory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

FileDescriptor copy_of(int descriptor) { return FileDescriptor(::dup(descriptor)); }

FileDescriptor memfd(off_t bytes, int seals) {
  FileDescriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.get(), bytes) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
  return file;
}

}  // namespace

TEST_CASE("one side reads what the other writes into shared memory") {
  const auto region = make_shared_region(10'000);
  REQUIRE(region->bytes().size() == 10'000);
  MappedRegion mapped(copy_of(region->descriptor()), 10'000);
  std::memcpy(region->bytes().data() + 9000, "batch", 5);
  CHECK(std::memcmp(mapped.data() + 9000, "batch", 5) == 0);
}

TEST_CASE("shared memory keeps its size, and its seals") {
  const auto region = make_shared_region(10'000);
  CHECK(::ftruncate(region->descriptor(), 5000) != 0);
  CHECK(::ftruncate(region->descriptor(), 20'000) != 0);
  CHECK(::fcntl(region->descriptor(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("a large region is unmapped after its end, too") {
  const auto mapped = [](const std::byte* memory) {
    unsigned char resident;
    return ::mincore(const_cast<std::byte*>(memory), 1, &resident) == 0;
  };
  constexpr std::uint64_t kBytes = 100 << 20;
  auto region = make_shared_region(kBytes);
  const std::byte* const first = region->bytes().data();
  constexpr std::uint64_t kPieceBytes = 16 << 20;  // that are unmapped at one go
  for (std::uint64_t at = 0; at < kBytes; at += kPieceBytes) CHECK(mapped(first + at));
  region.reset();
  for (std::uint64_t at = 0; at < kBytes; at += kPieceBytes) CHECK(eventually([&] { return !mapped(first + at); }));
  CHECK(eventually([&] { return !mapped(first + kBytes - 4096); }));
}

TEST_CASE("memory that could shrink under the reader is not mapped") {
  CHECK_FALSE(kind_of([] { MappedRegion(memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW), 8192); }));
  CHECK(kind_of([] { MappedRegion(memfd(8192, F_SEAL_GROW), 8192); }) == ErrorKind::kMalformed);
  CHECK(kind_of([] { MappedRegion(memfd(8191, F_SEAL_SHRINK | F_SEAL_GROW), 8192); }) == ErrorKind::kMalformed);
  CHECK(kind_of([] { MappedRegion(FileDescriptor(), 8192); }) == ErrorKind::kMalformed);
  std::array<int, 2> ends;
  REQUIRE(::pipe(ends.data()) == 0);
  const FileDescriptor writing(ends[1]);
  CHECK(kind_of([&] { MappedRegion(FileDescriptor(ends[0]), 8192); }) == ErrorKind::kMalformed);
}

TEST_CASE("a descriptor accompanies a message") {
  std::array<int, 2> ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const FileDescriptor left(ends[0]);
  const FileDescriptor right(ends[1]);
  const auto region = make_shared_region(4096);
  std::array<char, 3> text = {'a', 'b', 'c'};
  iovec part{text.data(), text.size()};

  DescriptorSlot slot;
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  slot.send_with(message, region->descriptor());
  REQUIRE(::sendmsg(left.get(), &message, 0) == 3);
  REQUIRE(::send(left.get(), text.data(), text.size(), 0) == 3);

  for (const bool with : {true, false}) {
    DescriptorSlot received;
    msghdr into = {.msg_iov = &part, .msg_iovlen = 1};
    received.receive_with(into);
    REQUIRE(::recvmsg(right.get(), &into, 0) == 3);
    auto descriptor = received.received(into);
    CHECK(bool(descriptor) == with);
    if (with) MappedRegion(std::move(descriptor), 4096);
  }
}

TEST_CASE("if more than one descriptor arrives, all are closed") {
  std::array<int, 2> ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const FileDescriptor left(ends[0]);
  const FileDescriptor right(ends[1]);
  const int next_free = ::dup(0);
  ::close(next_free);
  for (const std::size_t count : {2, 3}) {  // there is room for two, by alignment
    CAPTURE(count);
    char byte = 'a';
    iovec part{&byte, 1};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control = {};
    msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    const std::array<int, 3> sent = {ends[0], ends[0], ends[0]};
    std::memcpy(CMSG_DATA(header), sent.data(), count * sizeof(int));
    REQUIRE(::sendmsg(left.get(), &message, 0) == 1);

    DescriptorSlot slot;
    msghdr into = {.msg_iov = &part, .msg_iovlen = 1};
    slot.receive_with(into);
    REQUIRE(::recvmsg(right.get(), &into, 0) == 1);
    CHECK(kind_of([&] { slot.received(into); }) == ErrorKind::kMalformed);
    const FileDescriptor after(::dup(0));
    CHECK(after.get() == next_free);
  }
}

TEST_CASE("a descriptor that can't be received because too many files are open is reported as that") {
  std::array<int, 2> ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const FileDescriptor left(ends[0]);
  const FileDescriptor right(ends[1]);
  char byte = 'a';
  iovec part{&byte, 1};
  DescriptorSlot sent;
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  sent.send_with(message, left.get());
  REQUIRE(::sendmsg(left.get(), &message, 0) == 1);

  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  DescriptorSlot slot;
  msghdr into = {.msg_iov = &part, .msg_iovlen = 1};
  slot.receive_with(into);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto received = ::recvmsg(right.get(), &into, 0);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(received == 1);
  std::string what;
  CHECK(kind_of([&] { slot.received(into); }, &what) == ErrorKind::kSystem);
  CHECK_MESSAGE(what.find("Too many open files") != std::string::npos, what);
}
