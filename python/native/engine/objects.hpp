// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core.hpp"

#include <cstddef>
#include <cstdint>

/// @file
/// Python's and vLLM's objects, as the native scheduler reads and makes them.

namespace tessera_python {

// Attributes of vLLM's objects, as interned strings: looked up by pointer.
struct attribute_names {
  PyObject* status = PyUnicode_InternFromString("status");
  PyObject* stop_reason = PyUnicode_InternFromString("stop_reason");
  PyObject* finish_reason = PyUnicode_InternFromString("finish_reason");
  PyObject* num_preemptions = PyUnicode_InternFromString("num_preemptions");
  PyObject* is_prefill_chunk = PyUnicode_InternFromString("is_prefill_chunk");
};

inline const attribute_names& names() {
  static const attribute_names all;  // never freed: Python may be gone by then
  return all;
}

inline void set(PyObject* object, PyObject* name, nb::handle value) {
  if (PyObject_SetAttr(object, name, value.ptr()) != 0) throw nb::python_error();
}

inline nb::object stolen(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

inline nb::object number(std::int64_t n) { return stolen(PyLong_FromLongLong(n)); }

inline void append(nb::handle list, nb::handle value) {
  if (PyList_Append(list.ptr(), value.ptr()) != 0) throw nb::python_error();
}

inline std::int64_t value_of(PyObject* number) {
  const long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

template <class T>
T get(const nb::dict& d, const char* key) {
  return nb::cast<T>(d[key]);
}

inline time_point moment(double seconds) { return time_point::at_seconds(seconds); }

/// Output tokens that a request has when the steps under way have been run; their values are on the device.
inline std::int64_t expected_of(const request& r) { return r.known + r.state().expected; }

/// The ids of a row's blocks from `begin` on, as the runner takes them. No request has the runner's block 0: it stands
/// for blocks that a window has passed.
inline nb::object ids_from(const row_of_group& row, std::size_t begin) {
  nb::object list = stolen(PyList_New(static_cast<Py_ssize_t>(row.blocks.size() - begin)));
  for (std::size_t i = begin; i != row.blocks.size(); ++i) {
    const unsigned long id = i < row.first ? 0UL : row.blocks[i] + 1UL;
    NB_LIST_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i - begin), PyLong_FromUnsignedLong(id));
  }
  return list;
}

/// Has the requests fetched that come next in a pass over the plan.
inline void look_ahead(const plan& p, std::size_t i) noexcept {
  if (i + 8 < p.size()) p[i + 8].request->prefetch();
  if (i + 4 < p.size()) p[i + 4].request->prefetch_targets();
}

}  // namespace tessera_python
