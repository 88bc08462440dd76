// A disk on paper: what a save did to the files of a folder, and which states of them a power loss
// may leave. Files and folders are nodes; names are entries of folders, as they are on a disk: a
// file whose creation was lost and whose rename was not has its new name.
//
//   DiskModel disk("/tmp/box");            // as it is now, and durable
//   disk.rename("/tmp/box/a", "/tmp/box/b");
//   disk.sync(disk.find("/tmp/box"));
//   disk.after_power_loss(disk.changes(), keep).write("/tmp/copy");
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace snug::testing {

// Paths below a folder with their content; a folder has none and ends in "/".
struct FolderTree {
  std::map<std::string, std::string> files;
  void write(const std::filesystem::path& folder) const;
  std::string text() const;  // a line for each
  friend auto operator<=>(const FolderTree&, const FolderTree&) = default;
};

class DiskModel {
 public:
  using Path = std::filesystem::path;
  enum class Kept { no, yes, half };  // half: of the bytes of a write
  // Says for a change that is not durable whether it reached the disk.
  using Keep = std::function<Kept(size_t change)>;

  explicit DiskModel(const Path& root);

  // A node's number; -1 where nothing has that name.
  int find(const Path& path) const;
  int open(const Path& path, int flags);  // makes the file, as open(2) does, and gives its node
  void write(int node, int64_t offset, std::string bytes);
  void resize(int node, int64_t bytes);
  void make_folder(const Path& path);
  void link(const Path& from, const Path& to);
  void rename(const Path& from, const Path& to);
  void exchange(const Path& a, const Path& b);
  void remove(const Path& path);
  void sync(int node);

  size_t changes() const { return changes_.size(); }
  // Those of the first `count` changes that a power loss may undo.
  std::vector<size_t> pending(size_t count) const;
  FolderTree after_power_loss(size_t count, const Keep& keep) const;

 private:
  struct Node {
    bool is_folder = false;
    std::string bytes;                   // of a file
    std::map<std::string, int> entries;  // of a folder
  };
  struct Entry {
    int folder;
    std::string name;
    int node;  // -1: the name goes
  };
  struct Change {
    enum Kind { wrote, resized, named, synced } kind;
    int node = -1;                // of all but named
    int64_t offset = 0;           // where it wrote; the size
    std::string bytes = {};       // that it wrote
    std::vector<Entry> set = {};  // of named: together or not at all
  };

  int load(const Path& path);
  int add(bool is_folder);
  Entry entry(const Path& path, int node) const;
  void change(Change change);
  static void apply(std::vector<Node>& nodes, const Change& change);
  static void list(const std::vector<Node>& nodes, int folder, const std::string& prefix,
                   std::set<int>& above, FolderTree& tree);

  Path root_;
  std::vector<Node> first_;  // as at the beginning; folders and files made since are empty
  std::vector<Node> nodes_;  // as a process sees them
  std::vector<Change> changes_;
};

}  // namespace snug::testing
