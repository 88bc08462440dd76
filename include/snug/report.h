// A page of HTML about a plan, a run or a snapshot of PyTorch's memory, or about two of them side
// by side.
//
//   snug::Options o;
//   o.model = "gpt2";
//   snug::report({.subjects = {{.what = "gpt2", .options = o}}, .page = "gpt2.html"}, {});
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "snug/options.h"

namespace snug {

enum class SubjectKind { plan, run, snapshot };
// A directory with a history or checkpoints is a run, a pickle is a snapshot, all else is a model.
SubjectKind kind_of_subject(const std::string& what);

struct ReportSubject {
  std::string what;  // a model, the directory of a run, or a snapshot
  // Of a plan; of a snapshot, with a model: what was trained, so that changes get their cost.
  Options options;
};

struct ReportOptions {
  std::vector<ReportSubject> subjects;  // one or two
  std::string page;                     // the file; empty: named after the subjects
  bool overwrite = false;
};

struct PageReport {
  std::string page;  // the file
  int64_t bytes = 0;
  std::vector<std::string> answers;  // "qwen2.5-7b on rtx4090: fits, ...", one for each subject
};

// Throws bad_input where a subject is not what it should be, and a usage error where the file is
// there.
PageReport report(const ReportOptions& options,
                  const std::function<void(const std::string&)>& doing);

}  // namespace snug
