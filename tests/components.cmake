# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# A component is a folder of include/tessera, or the tools. Each test belongs to one, which is its label in CTest:
# `script/test queue` builds and runs the tests with the label `queue`.

file(GLOB tessera_components CONFIGURE_DEPENDS LIST_DIRECTORIES TRUE RELATIVE ${PROJECT_SOURCE_DIR}/include/tessera
     ${PROJECT_SOURCE_DIR}/include/tessera/*)
list(FILTER tessera_components EXCLUDE REGEX "\\.")
list(APPEND tessera_components tools)

# Tests with a first word that is not their component.
set(tessera_component_of_backfill gate)
set(tessera_component_of_block_store kv)
set(tessera_component_of_cascade compose)
set(tessera_component_of_conservation compose)
set(tessera_component_of_cost_reader sim)
set(tessera_component_of_decision_log pipeline)
set(tessera_component_of_endpoint_picker tools)
set(tessera_component_of_grouped_sessions pipeline)
set(tessera_component_of_long_runs pipeline)
set(tessera_component_of_pars_waits sim)
set(tessera_component_of_prefix_once pipeline)
set(tessera_component_of_profile_reader sim)
set(tessera_component_of_prometheus_text tools)
set(tessera_component_of_public_reports pipeline)
set(tessera_component_of_public_reports_fleet fleet)
set(tessera_component_of_queues queue)
set(tessera_component_of_schedulers pipeline)
set(tessera_component_of_step_reader sim)
set(tessera_component_of_support_allocation_guard core)
set(tessera_component_of_textbook pipeline)
set(tessera_component_of_trace_lines_reader sim)
set(tessera_component_of_trace_reader sim)

# tessera_component(OUT NAME): the component of the test or header NAME, by its first word. In scheduler_gate_may_throw
# it is the second, because `gate` is a component; scheduler_of_no_requests concerns the pipeline.
function(tessera_component out name)
  set(component ${tessera_component_of_${name}})
  if(NOT component)
    string(REGEX REPLACE "^scheduler_" "" rest ${name})
    string(REGEX MATCH "^[a-z]+" component ${rest})
    if(NOT component IN_LIST tessera_components AND name MATCHES "^scheduler_")
      set(component pipeline)
    endif()
  endif()
  if(NOT component IN_LIST tessera_components)
    message(FATAL_ERROR "No component for the test ${name}. Begin its name with one of ${tessera_components}, or name its "
                        "component in tests/components.cmake")
  endif()
  set(${out} ${component} PARENT_SCOPE)
endfunction()
