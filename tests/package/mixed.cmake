# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Two parts of one program, built with different values of TESSERA_CHECKED. Where a type of the library crosses from one
# to the other, the program does not link: the inline namespace carries the configuration. Where none does, each part
# keeps its own. Without optimisation, so that inline functions are emitted, and would be merged if they had one name.
# Included by check.cmake.

foreach(interface plain opaque)
  set(define "")
  if(interface STREQUAL "opaque")
    set(define -DOPAQUE)
  endif()
  foreach(checked 0 1)
    foreach(source engine main)
      run(${COMPILER} -std=c++20 -O0 -I${SOURCE_DIR}/include -DTESSERA_CHECKED=${checked} ${define} -c
          ${consumer}/mixed/${source}.cpp -o ${SCRATCH}/${source}_${interface}_${checked}.o)
    endforeach()
  endforeach()
endforeach()

# The exit code of a link, and what the linker said.
function(link interface engine main)
  execute_process(
    COMMAND ${COMPILER} ${SCRATCH}/main_${interface}_${main}.o ${SCRATCH}/engine_${interface}_${engine}.o -o
            ${SCRATCH}/${interface}_${engine}_${main}
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(result ${result} PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

# Whether the part dies of a misuse that it commits, with the library's message.
function(dies program part expected)
  execute_process(COMMAND ${program} ${part} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(died FALSE)
  if(NOT result EQUAL 0 AND said MATCHES "index out of range")
    set(died TRUE)
  elseif(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} ${part} ended with ${result}: ${said}")
  endif()
  if((died AND NOT expected) OR (expected AND NOT died))
    message(FATAL_ERROR "${program} ${part}: that it dies is ${died}, but should be ${expected}")
  endif()
endfunction()

foreach(engine 0 1)
  foreach(main 0 1)
    link(plain ${engine} ${main})
    if(engine EQUAL main)
      if(NOT result EQUAL 0)
        message(FATAL_ERROR "both with TESSERA_CHECKED=${main}, but they do not link:\n${said}")
      endif()
      dies(${SCRATCH}/plain_${engine}_${main} main ${engine})
    elseif(result EQUAL 0)
      message(FATAL_ERROR "the engine with TESSERA_CHECKED=${engine} and the program with ${main} link")
    elseif(NOT said MATCHES "undefined reference to .second\\(tessera::[a-z0-9_]+::fixed_vector|undefined symbol: second\\(tessera::")
      message(FATAL_ERROR "they do not link, but for another reason:\n${said}")
    endif()

    link(opaque ${engine} ${main})
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "no type of the library crosses, but they do not link:\n${said}")
    endif()
    dies(${SCRATCH}/opaque_${engine}_${main} engine ${engine})
    dies(${SCRATCH}/opaque_${engine}_${main} main ${main})
  endforeach()
endforeach()
