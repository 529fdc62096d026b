# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DPROGRAM=... -DLABEL=... -DOUTPUT=... -P list_death_cases.cmake
# Writes one add_test for every case of a death test program, with the label LABEL.

execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list ended with ${result}")
endif()
string(REGEX MATCHALL "[^\n]+" names "${names}")
set(tests "")
foreach(name IN LISTS names)
  string(APPEND tests "add_test(death.${name} \"${PROGRAM}\" --check ${name})\n"
                      "set_tests_properties(death.${name} PROPERTIES LABELS ${LABEL})\n")
endforeach()
file(WRITE ${OUTPUT} "${tests}")
