/* SPDX-License-Identifier: Apache-2.0
 * Tenants' masks and quotas, changed while the engine runs (E4): the words of the control buffer, then a
 * wake-up so that sleeping workers look again. A foreign host may write the words itself; workers notice
 * within 64 items, or when the poller looks. */
#include <errno.h>

#include "engine/device_host.h"
#include "engine/internal.h"

void tg_tenant_changed(struct tg_engine *e)
{
    tg_add_seqcst_u32(&e->recheck, 1); /* A4 seq_cst: after the word; pairs with A5 in claim.c */
    tg_wake_one(e);
}

int tg_engine_set_tenant(struct tg_engine *e, uint32_t tenant, int on)
{
    if (!tg_tenant_in_table(tenant))
        return -EINVAL;
    if (e->device)
        return tg_device_word(e, TG_CONTROL_TENANT_MASKS + tenant,
                              on ? TG_TENANT_MASK_ALL : TG_TENANT_MASK_NONE);
    /* A2 seq_cst: before the look at who sleeps; pairs with A1. */
    tg_store_seqcst_u32(&e->control[TG_CONTROL_TENANT_MASKS + tenant],
                        on ? TG_TENANT_MASK_ALL : TG_TENANT_MASK_NONE);
    tg_tenant_changed(e);
    return 0;
}

int tg_engine_set_quota(struct tg_engine *e, uint32_t tenant, uint32_t quota)
{
    if (!tg_tenant_in_table(tenant))
        return -EINVAL;
    if (e->device)
        return tg_device_word(e, TG_CONTROL_TENANT_QUOTA_BASE + tenant, quota);
    tg_store_seqcst_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant], quota); /* A2 */
    tg_tenant_changed(e);
    return 0;
}
