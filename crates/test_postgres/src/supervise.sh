# Stops a server when nobody holds the lock on standard input any more, and removes its folder.
#
# Usage: supervise FOLDER SECONDS. It waits that many seconds for somebody new; while it stops the server, it holds
# the lock itself. A process is signalled only while its working folder shows that it is the server.
folder=${1:?} linger=${2:?}

while flock --exclusive 0 && [ "$linger" -gt 0 ]; do
    flock --unlock 0
    sleep "$linger"
    flock --exclusive --nonblock 0 && break
done

runs() {
    [ -n "$server" ] && [ "$(readlink "/proc/$server/cwd")" = "$folder/data" ]
}

server=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null)
if runs; then
    # A test may have left it paused.
    kill -QUIT "$server" && kill -CONT "$server"
    while runs; do sleep 0.1; done
fi
mountpoint --quiet "$folder/data" && umount "$folder/data"
rm -rf "$folder"
