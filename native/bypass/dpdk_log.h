// What DPDK logs: collected for an error message while something is attempted, and afterwards written to another
// stream.
//
// Threading: one thread; a process has one at a time.
#pragma once

#include <cstdio>
#include <string>

namespace headrace::bypass {

class DpdkLog {
 public:
  explicit DpdkLog(std::FILE* afterwards);
  ~DpdkLog();
  DpdkLog(const DpdkLog&) = delete;
  DpdkLog& operator=(const DpdkLog&) = delete;

  // The last line of what was logged, without the component's name; `otherwise` if there is none.
  std::string reason(const std::string& otherwise);

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* const afterwards_;
  std::FILE* stream_;
};

}  // namespace headrace::bypass
