#include "bypass/dpdk_log.h"

#include <rte_log.h>

#include <cstdlib>

namespace headrace::bypass {

DpdkLog::DpdkLog(std::FILE* afterwards) : afterwards_(afterwards), stream_(open_memstream(&text_, &size_)) {
  if (stream_ != nullptr) rte_openlog_stream(stream_);
}

DpdkLog::~DpdkLog() {
  rte_openlog_stream(afterwards_);
  if (stream_ != nullptr) std::fclose(stream_);
  std::free(text_);
}

std::string DpdkLog::reason(const std::string& otherwise) {
  if (stream_ == nullptr || std::fflush(stream_) != 0) return otherwise;
  std::string text(text_, size_);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  return text.empty() ? otherwise : text;
}

}  // namespace headrace::bypass
