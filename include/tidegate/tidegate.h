/* SPDX-License-Identifier: Apache-2.0
 * All of tidegate's public headers. Each of them also compiles alone. */
#ifndef TIDEGATE_TIDEGATE_H
#define TIDEGATE_TIDEGATE_H

#include <tidegate/abi.h>
#include <tidegate/attach.h>
#include <tidegate/compile.h>
#include <tidegate/engine.h>
#include <tidegate/hd.h>
#include <tidegate/ir.h>
#include <tidegate/launch.h>
#include <tidegate/lower.h>
#include <tidegate/policy.h>
#include <tidegate/ring.h>
#include <tidegate/serve.h>

#endif
