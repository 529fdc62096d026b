// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calibrate.hpp"

int main(int argc, char** argv) { return calibrate::main(argc, argv); }
