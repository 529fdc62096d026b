# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DPROGRAM=... -DSOURCE=... -P check_example.cmake
#
# Runs an example and compares what it prints with the comment "/* output:" at the end of its source.

file(READ ${SOURCE} text)
string(FIND "${text}" "\n/* output:\n" begin REVERSE)
if(begin EQUAL -1)
  message(FATAL_ERROR "${SOURCE}: no comment '/* output:'")
endif()
string(LENGTH "\n/* output:\n" skip)
math(EXPR begin "${begin} + ${skip}")
string(SUBSTRING "${text}" ${begin} -1 expected)
string(FIND "${expected}" "*/" end)
if(end EQUAL -1)
  message(FATAL_ERROR "${SOURCE}: the comment '/* output:' does not end")
endif()
string(SUBSTRING "${expected}" 0 ${end} expected)

execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed ERROR_VARIABLE complaints RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${result}\n${printed}${complaints}")
endif()
if(expected STREQUAL "")
  message(FATAL_ERROR "${SOURCE}: the comment '/* output:' is empty")
endif()
if(NOT printed STREQUAL expected)
  # FATAL_ERROR reflows its text; spaces matter here.
  message("expected:\n${expected}printed:\n${printed}")
  message(FATAL_ERROR "${SOURCE}: the program does not print what the source says")
endif()
message("${printed}")
