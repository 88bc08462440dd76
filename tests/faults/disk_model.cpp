#include "faults/disk_model.h"

#include <fcntl.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "formats/testing.h"

namespace snug::testing {

namespace fs = std::filesystem;

void FolderTree::write(const fs::path& folder) const {
  fs::create_directories(folder);
  for (const auto& [path, content] : files) {
    if (path.ends_with('/'))
      fs::create_directories(folder / path);
    else
      write_bytes(folder / path, content);
  }
}

std::string FolderTree::text() const {
  std::string text;
  for (const auto& [path, content] : files)
    text +=
        fmt::format("\n  {} {}", path, path.ends_with('/') ? "" : std::to_string(content.size()));
  return text;
}

DiskModel::DiskModel(const Path& root) : root_(root) {
  load(root);
  first_ = nodes_;
}

int DiskModel::load(const Path& path) {
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back({.is_folder = fs::is_directory(path)});
  if (!nodes_.back().is_folder) {
    nodes_.back().bytes = read_file(path);
    return node;
  }
  for (const auto& below : fs::directory_iterator(path)) {
    const int child = load(below.path());
    nodes_[static_cast<size_t>(node)].entries[below.path().filename().string()] = child;
  }
  return node;
}

int DiskModel::add(bool is_folder) {
  nodes_.push_back({.is_folder = is_folder});
  first_.push_back({.is_folder = is_folder});
  return static_cast<int>(nodes_.size()) - 1;
}

int DiskModel::find(const Path& path) const {
  int node = 0;
  for (const Path& name : path.lexically_relative(root_)) {
    if (name == ".") continue;
    const auto& entries = nodes_.at(static_cast<size_t>(node)).entries;
    const auto at = entries.find(name.string());
    if (at == entries.end()) return -1;
    node = at->second;
  }
  return node;
}

DiskModel::Entry DiskModel::entry(const Path& path, int node) const {
  const int folder = find(path.parent_path());
  if (folder < 0) throw internal_error("the disk model does not know {}", path.string());
  return {folder, path.filename().string(), node};
}

void DiskModel::change(Change change) {
  apply(nodes_, change);
  changes_.push_back(std::move(change));
}

int DiskModel::open(const Path& path, int flags) {
  if ((flags & O_TMPFILE) == O_TMPFILE) return add(/*is_folder=*/false);  // `path` is its folder
  int node = find(path);
  if (node < 0 && (flags & O_CREAT) == 0)
    throw internal_error("the disk model does not know {}", path.string());
  if (node < 0) {
    node = add(/*is_folder=*/false);
    change({.kind = Change::named, .set = {entry(path, node)}});
  } else if ((flags & O_TRUNC) != 0) {
    resize(node, 0);
  }
  return node;
}

void DiskModel::write(int node, int64_t offset, std::string bytes) {
  change({.kind = Change::wrote, .node = node, .offset = offset, .bytes = std::move(bytes)});
}

void DiskModel::resize(int node, int64_t bytes) {
  change({.kind = Change::resized, .node = node, .offset = bytes});
}

void DiskModel::make_folder(const Path& path) {
  const int node = add(/*is_folder=*/true);
  change({.kind = Change::named, .set = {entry(path, node)}});
}

void DiskModel::link(const Path& from, const Path& to) {
  change({.kind = Change::named, .set = {entry(to, find(from))}});
}

void DiskModel::rename(const Path& from, const Path& to) {
  change({.kind = Change::named, .set = {entry(from, -1), entry(to, find(from))}});
}

void DiskModel::exchange(const Path& a, const Path& b) {
  change({.kind = Change::named, .set = {entry(a, find(b)), entry(b, find(a))}});
}

void DiskModel::remove(const Path& path) {
  change({.kind = Change::named, .set = {entry(path, -1)}});
}

void DiskModel::sync(int node) { change({.kind = Change::synced, .node = node}); }

std::vector<size_t> DiskModel::pending(size_t count) const {
  std::vector<size_t> pending;
  std::set<int> synced;  // by a later change
  for (size_t i = count; i-- > 0;) {
    const Change& change = changes_[i];
    if (change.kind == Change::synced) {
      synced.insert(change.node);
      continue;
    }
    bool durable = synced.contains(change.node);
    for (const Entry& entry : change.set) durable |= synced.contains(entry.folder);
    if (!durable) pending.push_back(i);
  }
  return {pending.rbegin(), pending.rend()};
}

FolderTree DiskModel::after_power_loss(size_t count, const Keep& keep) const {
  const std::vector<size_t> pending = this->pending(count);
  const std::set<size_t> open(pending.begin(), pending.end());
  std::vector<Node> nodes = first_;
  for (size_t i = 0; i < count; ++i) {
    const Kept kept = open.contains(i) ? keep(i) : Kept::yes;
    if (kept == Kept::no) continue;
    Change change = changes_[i];
    if (kept == Kept::half) change.bytes.resize(change.bytes.size() / 2);
    apply(nodes, change);
  }
  FolderTree tree;
  std::set<int> above;
  list(nodes, 0, "", above, tree);
  return tree;
}

void DiskModel::apply(std::vector<Node>& nodes, const Change& change) {
  for (const Entry& entry : change.set) {
    auto& entries = nodes.at(static_cast<size_t>(entry.folder)).entries;
    if (entry.node < 0)
      entries.erase(entry.name);
    else
      entries[entry.name] = entry.node;
  }
  if (change.node < 0) return;
  std::string& bytes = nodes.at(static_cast<size_t>(change.node)).bytes;
  const auto offset = static_cast<size_t>(change.offset);
  if (change.kind == Change::resized) bytes.resize(offset);
  if (change.kind != Change::wrote) return;
  bytes.resize(std::max(bytes.size(), offset + change.bytes.size()));
  bytes.replace(offset, change.bytes.size(), change.bytes);
}

void DiskModel::list(const std::vector<Node>& nodes, int folder, const std::string& prefix,
                     std::set<int>& above, FolderTree& tree) {
  if (!above.insert(folder).second) return;  // a folder in itself: lost
  for (const auto& [name, number] : nodes.at(static_cast<size_t>(folder)).entries) {
    const Node& node = nodes.at(static_cast<size_t>(number));
    if (!node.is_folder) {
      tree.files[prefix + name] = node.bytes;
      continue;
    }
    tree.files[prefix + name + "/"];
    list(nodes, number, prefix + name + "/", above, tree);
  }
  above.erase(folder);
}

}  // namespace snug::testing
