// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <utility>
#include <vector>

#if !defined(Py_LIMITED_API)
#  include <structmember.h>
#endif

/// @file
/// Many records of a class of the engine's, of which two fields are given and the others have their defaults.

namespace tessera_python {

/// Makes a record by a call of the class, or by a copy of an instance that a call has made, in half the time. It copies
/// if the class is a struct of msgspec, its instances are nothing but their fields, and its defaults cannot be changed.
/// Any other class is called. So is every class under the stable ABI, where a copy takes as long as a call: references
/// are counted by calls as well.
class record_maker {
 public:
  explicit record_maker(nanobind::object maker) : maker_{std::move(maker)} {
    if (!PyType_Check(maker_.ptr()) || !nanobind::hasattr(maker_, "__struct_fields__")) return;
    find_layout();
    if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  }

  /// A record with these first two fields.
  [[nodiscard]] nanobind::object operator()(PyObject* first, PyObject* second) const {
    if (fields_ == 0) {
      PyObject* arguments[2] = {first, second};
      return checked(PyObject_Vectorcall(maker_.ptr(), arguments, 2, nullptr));
    }
    auto* type = reinterpret_cast<PyTypeObject*>(maker_.ptr());
    nanobind::object made = checked(PyType_GenericAlloc(type, 0));
    PyObject** to = fields_of(made.ptr());
    PyObject* const* from = fields_of(pattern_.ptr());
    for (std::size_t i = 0; i != fields_; ++i) to[i] = Py_NewRef(from[i]);
    to[first_] = replaced(to[first_], first);
    to[second_] = replaced(to[second_], second);
    return made;
  }

 private:
  static nanobind::object checked(PyObject* object) {
    if (object == nullptr) throw nanobind::python_error();
    return nanobind::steal(object);
  }
  static PyObject* replaced(PyObject* old, PyObject* by) noexcept {
    Py_DECREF(old);
    return Py_NewRef(by);
  }
  static PyObject** fields_of(PyObject* record) noexcept {
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(record) + sizeof(PyObject));
  }

  /// Sets `fields_` if each field is a pointer, whatever their order, and there is nothing else.
  void find_layout() {
#if !defined(Py_LIMITED_API) && !defined(Py_GIL_DISABLED) && !defined(Py_TRACE_REFS)
    auto* type = reinterpret_cast<PyTypeObject*>(maker_.ptr());
    const nanobind::object names = maker_.attr("__struct_fields__");
    if (!PyTuple_Check(names.ptr()) || PyTuple_GET_SIZE(names.ptr()) < 2) return;
    const Py_ssize_t n = PyTuple_GET_SIZE(names.ptr());
    const auto pointer = static_cast<Py_ssize_t>(sizeof(PyObject*));
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) || type->tp_alloc != PyType_GenericAlloc ||
        type->tp_basicsize != static_cast<Py_ssize_t>(sizeof(PyObject)) + n * pointer || type->tp_itemsize != 0 ||
        nanobind::hasattr(maker_, "__post_init__")) {
      return;
    }
    std::vector<bool> found(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i != n; ++i) {
      const nanobind::object field = nanobind::getattr(maker_, PyTuple_GET_ITEM(names.ptr(), i), nanobind::none());
      if (!Py_IS_TYPE(field.ptr(), &PyMemberDescr_Type)) return;
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(field.ptr())->d_member;
      const Py_ssize_t offset = member->offset - static_cast<Py_ssize_t>(sizeof(PyObject));
      if (member->type != T_OBJECT_EX || offset < 0 || offset % pointer != 0 || offset / pointer >= n) return;
      const auto place = static_cast<std::size_t>(offset / pointer);
      if (found[place]) return;
      found[place] = true;
      if (i == 0) first_ = place;
      if (i == 1) second_ = place;
    }
    PyObject* arguments[2] = {Py_None, Py_None};
    pattern_ = checked(PyObject_Vectorcall(maker_.ptr(), arguments, 2, nullptr));
    if (Py_TYPE(pattern_.ptr()) != type) return;
    for (Py_ssize_t i = 0; i != n; ++i) {
      PyObject* value = fields_of(pattern_.ptr())[i];
      const bool stays =
          value == Py_None ||
          (value != nullptr && (PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value)));
      if (!stays) return;
    }
    fields_ = static_cast<std::size_t>(n);
#endif
  }

  nanobind::object maker_;
  nanobind::object pattern_;
  std::size_t fields_ = 0;  ///< 0: it calls.
  std::size_t first_ = 0;   ///< Places of the two that are given.
  std::size_t second_ = 0;
};

}  // namespace tessera_python
