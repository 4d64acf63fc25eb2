// One accepted socket and its session: bytes are moved between the two, and nothing blocks.
//
// Threading: one thread at a time; it may be handed from one to another between calls.
#pragma once

#include <cstdint>
#include <exception>

#include "io/file_descriptor.h"
#include "wire/session.h"

namespace headrace {

class ServedConnection {
 public:
  using Id = std::uint64_t;
  struct Gone : std::exception {};  // the connection has ended

  ServedConnection(Id id, FileDescriptor socket, Server& server, SessionOptions options);

  Id id() const { return id_; }
  int descriptor() const { return socket_.get(); }
  Session& session() { return session_; }

  // Until the socket is empty, the session wants no more, or others should have their turn. Throws Gone.
  void receive();
  // Until the socket is full, nothing is left, or others should have their turn. Throws Gone: also where the session
  // has come to its end.
  void send();

 private:
  const Id id_;
  const FileDescriptor socket_;
  Session session_;
};

}  // namespace headrace
