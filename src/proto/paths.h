/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the broker's socket and store lie, for both sides alike (R2: one user, one place).
 *
 * socket: $XDG_RUNTIME_DIR/tidegate/broker.sock; without that variable /run/user/UID/tidegate/broker.sock
 * when /run/user/UID is there and ours, else /tmp/tidegate-UID/broker.sock.
 *
 * store: $XDG_STATE_HOME/tidegate/store.db; without that variable $HOME/.local/state/tidegate/store.db
 * (without HOME too: an error; a static program cannot ask the password database). An empty variable
 * counts as unset.
 *
 * A directory that is not ours, is a link, or can be written by others is refused, never used (U4, U5).
 */
#ifndef TG_PROTO_PATHS_H
#define TG_PROTO_PATHS_H

#include <stddef.h>

#define TG_PATH_BYTES 4096u
/* The longest path of a store: SQLite takes 512 bytes, with its own "-journal" behind it. */
#define TG_STORE_PATH_BYTES 504u
#define TG_SOCKET_PATH_BYTES 107u /* that of a socket: what sockaddr_un.sun_path takes */

/* As small as they may be, for every command that asks writes them first of all: one page, not four. */
struct tg_paths {
    char runtime_dir[TG_SOCKET_PATH_BYTES + 1]; /* .../tidegate, mode 0700 */
    char socket[TG_SOCKET_PATH_BYTES + 1];
    char state_dir[TG_STORE_PATH_BYTES + 1];
    char store[TG_STORE_PATH_BYTES + 1];
};

/* Works the paths out from the environment; touches no file. 0; -EINVAL with a relative path in a variable
 * or no HOME; -ENAMETOOLONG. On error *why (size bytes) says which variable and which rule. */
int tg_paths_resolve(struct tg_paths *ret, char *why, size_t size);

/* Makes a directory (and the missing parents, mode 0700) or checks one that is there: a real directory,
 * owned by this user, not writable by others; its mode is not changed. A parent may be a link, unless
 * another user made it in a directory that everybody may write; no parent may be writable by everybody
 * without being sticky. 0, -EPERM with *why naming the path and the rule, or -errno likewise. */
int tg_private_dir(const char *path, char *why, size_t size);

#endif
