/* SPDX-License-Identifier: Apache-2.0
 * How evenly tenants shared (E4): the measure that tests, statistics and the simulator use. */
#include <tidegate/tenants.h>

uint32_t tg_tenants_jain_ppm(const uint64_t *shares, uint32_t n)
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        double share = (double)shares[i];
        sum += share;
        squares += share * share;
    }
    if (squares <= 0)
        return 1000000;
    return (uint32_t)(sum * sum / ((double)n * squares) * 1e6 + 0.5);
}
