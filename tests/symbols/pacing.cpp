// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>

template class tessera::basic_token_pacer<tessera::token_pacer::clock_type>;
template class tessera::basic_qoe_integrator<tessera::qoe_integrator::clock_type>;
