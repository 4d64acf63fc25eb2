#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#ifndef HEADRACE_SANITIZED
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

// Takes the place of libc's: a test whose threads the thread sanitizer would not see ends the tests.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  const doctest::ContextOptions* options = doctest::getContextOptions();
  const auto* test = options != nullptr ? options->currentTest : nullptr;
  if (test != nullptr && std::filesystem::path(test->m_file.c_str()).parent_path().filename() == "tests") {
    std::fprintf(stderr, "%s: \"%s\" starts a thread: move it to native/tests/threads\n", test->m_file.c_str(),
                 test->m_name);
    std::abort();
  }
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, run, argument);
}
#endif
