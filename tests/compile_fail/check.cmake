# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DSOURCE=... -P check.cmake
#
# SOURCE must not compile, and for the reason it gives: each of its lines "// expect: REGEX" must match what the
# compiler says. With EXPECT_OK defined the same file must compile, which shows that nothing else is wrong with it.

file(STRINGS ${SOURCE} expectations REGEX "^// expect: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE}: no line '// expect: REGEX'")
endif()

set(ENV{LC_ALL} C)
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
list(TRANSFORM INCLUDES PREPEND -I)
list(REMOVE_ITEM INCLUDES -I)
set(compile ${COMPILER} ${flags} -std=c++20 -fsyntax-only ${INCLUDES} ${SOURCE})

execute_process(COMMAND ${compile} -DEXPECT_OK RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "must compile with EXPECT_OK:\n${SOURCE}\n${said}")
endif()

execute_process(COMMAND ${compile} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles, but must not:\n${SOURCE}")
endif()
foreach(line IN LISTS expectations)
  string(REGEX REPLACE "^// expect: " "" regex "${line}")
  if(NOT said MATCHES "${regex}")
    message(FATAL_ERROR "does not match: '${regex}'\n${SOURCE}: the compiler says\n${said}")
  endif()
endforeach()
