// The server: tables, parameters and mailboxes under names. It knows nothing of sockets; sessions drive it.
//
// Threading: every method may be called from any thread. Tables are added, never removed; references stay valid for the
// server's life.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/mailbox.h"
#include "core/parameters.h"
#include "core/table.h"

namespace headrace {

class Server {
 public:
  // kInvalid: the name is taken.
  std::shared_ptr<Table> add_table(const std::string& name, TableOptions options);
  std::shared_ptr<Table> table(const std::string& name) const;  // kNotFound, naming those there are
  std::vector<std::string> table_names() const;
  Parameters& parameters() { return parameters_; }
  std::shared_ptr<Mailbox> mailbox(const std::string& name);  // made at first use
  void close();                                               // closes every table

 private:
  mutable std::mutex mutex_;  // guards tables_ and mailboxes_
  std::map<std::string, std::shared_ptr<Table>> tables_;
  std::map<std::string, std::shared_ptr<Mailbox>> mailboxes_;
  Parameters parameters_;
};

}  // namespace headrace
