// What DPDK logs: collected for an error message while something is attempted, and written to stderr otherwise.
//
// Threading: one thread; a process has one at a time.
#pragma once

#include <cstdio>
#include <string>

namespace headrace::bypass {

class DpdkLog {
 public:
  DpdkLog();
  ~DpdkLog();
  DpdkLog(const DpdkLog&) = delete;
  DpdkLog& operator=(const DpdkLog&) = delete;

  // The last line of what was logged, without the component's name; `otherwise` if there is none.
  std::string reason(const std::string& otherwise);

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

}  // namespace headrace::bypass
