# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What the checks of an object's symbols share, whatever compiles it. SOURCE, OBJECT and NM are theirs.

# What `nm` says of OBJECT.
function(read_symbols out)
  execute_process(COMMAND ${NM} -C ${OBJECT} OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${NM} -C ${OBJECT} failed")
  endif()
  set(${out} "${symbols}" PARENT_SCOPE)
endfunction()

# The lines of `symbols` that match one of the expressions.
function(find_symbols out symbols)
  set(found "")
  foreach(regex IN LISTS ARGN)
    string(REGEX MATCHALL "[^\n]*${regex}[^\n]*" lines "${symbols}")
    if(lines)
      string(REPLACE ";" "\n" lines "${lines}")
      string(APPEND found "${lines}\n")
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# Nothing may have been found, or, in a control, what its lines "// violates: REGEX" say.
function(judge_symbols found controls complaint)
  if(controls)
    foreach(line IN LISTS controls)
      string(REGEX REPLACE "^// violates: " "" regex "${line}")
      if(NOT found MATCHES "${regex}")
        message(FATAL_ERROR "${SOURCE}: the check did not find '${regex}', only:\n${found}")
      endif()
    endforeach()
  elseif(found)
    message(FATAL_ERROR "${SOURCE} needs ${complaint}:\n${found}")
  endif()
endfunction()
