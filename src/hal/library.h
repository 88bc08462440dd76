// A shared library that is opened when it is first asked for, so that the program also starts where
// the library is missing.
//
//   const Library nccl("libnccl.so.2");
//   if (auto* version = nccl.function<int(int*)>("ncclGetVersion")) version(&number);
#pragma once

#include <dlfcn.h>

#include <string>

namespace snug {

// Stays open until the process ends: libraries of a driver do not survive being closed.
class Library {
 public:
  explicit Library(std::string file)
      : file_(std::move(file)), handle_(dlopen(file_.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (const char* words = handle_ == nullptr ? dlerror() : nullptr) why_not_ = words;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& file() const { return file_; }
  const std::string& why_not() const { return why_not_; }  // the system's words; empty: it is open

  // nullptr where the library or the function is missing.
  template <typename Signature>
  Signature* function(const char* name) const {
    if (handle_ == nullptr) return nullptr;
    return reinterpret_cast<Signature*>(dlsym(handle_, name));
  }
  template <typename Object>
  const Object* object(const char* name) const {
    return handle_ == nullptr ? nullptr : static_cast<const Object*>(dlsym(handle_, name));
  }

 private:
  std::string file_;
  void* handle_;
  std::string why_not_;
};

}  // namespace snug
