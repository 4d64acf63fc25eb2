#include "core/claim_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "core/chunk.h"
#include "core/claims.h"
#include "core/error.h"

namespace headrace {
namespace {

// This line with the checksum of all that follows; then a line for each claim: owner, run, milliseconds, name.
constexpr std::string_view kTitle = "headrace claims 1 ";

std::string head_of(std::string_view body) {
  return std::string(kTitle) + std::to_string(crc32c(std::as_bytes(std::span(body)))) + "\n";
}

}  // namespace

void ClaimFile::fail(const char* action) const {
  throw Error(ErrorKind::kSystem, "claim file " + path_ + " can't be " + action + ": " + std::strerror(errno));
}

ClaimFile::Content ClaimFile::read() const {
  std::ifstream file(path_, std::ios::binary);
  if (!file.is_open() && errno == ENOENT) return {kMissing, {}};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open()) fail("read");
  const std::size_t begin = text.find('\n') + 1;  // 0 where there is none
  if (begin == 0 || text.substr(0, begin) != head_of(std::string_view(text).substr(begin))) return {kDamaged, {}};
  Content content{kWhole, {}};
  std::istringstream lines(text.substr(begin));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    KeptClaim claim;
    std::int64_t keep = 0;
    fields >> claim.owner >> claim.run >> keep;
    claim.keep = std::chrono::milliseconds(keep);
    fields.get();  // the space before the name, which may begin with one
    if (!std::getline(fields, claim.name) || keep <= 0 || claim.keep > Claims::kLongestKeep) return {kDamaged, {}};
    content.claims.push_back(std::move(claim));
  }
  return content;
}

void ClaimFile::write(std::span<const KeptClaim> claims) const {
  std::ostringstream lines;
  for (const KeptClaim& claim : claims) {
    lines << claim.owner << ' ' << claim.run << ' ' << claim.keep.count() << ' ' << claim.name << '\n';
  }
  const std::string body = lines.str(), text = head_of(body) + body, draft = path_ + ".new";
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail("written");
  errno = ENOSPC;  // a short write sets no errno
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int failure = errno;
  ::close(file);
  errno = failure;
  // Not synced: it survives a killed server, and after a power loss the checksum detects damage.
  if (!whole || std::rename(draft.c_str(), path_.c_str()) != 0) fail("written");
}

}  // namespace headrace
