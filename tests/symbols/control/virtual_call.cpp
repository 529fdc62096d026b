// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// violates: vtable for
// violates: std::function

#include <functional>

struct policy {
  virtual ~policy() = default;
  virtual int choose(int n) const;
};
int policy::choose(int n) const { return n; }
int ask(const std::function<int(int)>& f) { return f(policy{}.choose(1)); }
