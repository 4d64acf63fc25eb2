#include "core/server.h"

#include <utility>

#include "core/error.h"

namespace headrace {

std::shared_ptr<Table> Server::add_table(const std::string& name, TableOptions options) {
  const std::lock_guard lock(mutex_);
  if (tables_.contains(name)) {
    throw Error(ErrorKind::kInvalid,
                "table \"" + name + "\" exists already; names must differ, and the first one stays");
  }
  return tables_.emplace(name, std::make_shared<Table>(std::move(options))).first->second;
}

std::shared_ptr<Table> Server::table(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = tables_.find(name); found != tables_.end()) return found->second;
  std::string there;
  for (const auto& [other, table] : tables_) there += (there.empty() ? "\"" : ", \"") + other + "\"";
  throw Error(ErrorKind::kNotFound,
              "table \"" + name + "\" is not on this server; it has " + (there.empty() ? "no tables" : there));
}

std::vector<std::string> Server::table_names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, table] : tables_) names.push_back(name);
  return names;
}

std::shared_ptr<Mailbox> Server::mailbox(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Mailbox>& mailbox = mailboxes_[name];
  if (!mailbox) mailbox = std::make_shared<Mailbox>();
  return mailbox;
}

void Server::close() {
  std::vector<std::shared_ptr<Table>> tables;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, table] : tables_) tables.push_back(table);
  }
  for (const auto& table : tables) table->close();  // outside the lock: it calls wakers
}

}  // namespace headrace
