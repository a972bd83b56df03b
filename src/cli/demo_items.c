#include <errno.h>
#include "cli/demo_launch.h"
int tg_demo_items(struct tg_demo *demo)
{
    (void)demo;
    return 0;
}
