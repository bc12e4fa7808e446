# Stops a server and removes its folder when no process holds a shared lock on the file on standard input.
#
# Usage: supervise FOLDER SECONDS. It waits SECONDS for a new user before it stops the server. While it stops the server, it
# holds the lock exclusively. It signals a process only if the working folder of the process is the server's data folder.
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
    # A test may have left the server paused.
    kill -QUIT "$server" && kill -CONT "$server"
    while runs; do sleep 0.1; done
fi
mountpoint --quiet "$folder/data" && umount "$folder/data"
rm -rf "$folder"
