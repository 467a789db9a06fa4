# Sourced by the rows in rows/cloud: a WebDAV server on this host, and a line to it with a round trip of 20 ms.
# shellcheck shell=bash disable=SC2034,SC2154
install_packages apache2-bin openssl curl >&2
export COVE_PASSWORD=lovelace
export RCLONE_CONFIG_CLOUD_TYPE=webdav RCLONE_CONFIG_CLOUD_VENDOR=other RCLONE_CONFIG_CLOUD_USER=ada
RCLONE_CONFIG_CLOUD_PASS=$(rclone obscure "$COVE_PASSWORD")
export RCLONE_CONFIG_CLOUD_PASS
rclone_source=cloud:
servers=()

stop_servers() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2>/dev/null || true
    wait
    rm -rf "$work/server"
}
trap stop_servers EXIT

# serve FOLDER [MILLISECONDS]: what is asked and answered takes so long each.
serve() {
    start_apache "$1"
    if [ $# = 2 ]; then
        [ -x "$work/line" ] || gcc -O2 -Wall "$here/line.c" -o "$work/line"
        mkfifo "$work/server/line"
        "$work/line" "$port" "$2" >"$work/server/line" &
        servers+=($!)
        read -r port <"$work/server/line"
    fi
    cove_source=webdav://ada@127.0.0.1:$port/
    export RCLONE_CONFIG_CLOUD_URL=http://127.0.0.1:$port/
}

# start_apache FOLDER: sets port.
start_apache() {
    local module rights as=() deadline=$((SECONDS + 20))
    port=$((20000 + RANDOM % 10000))
    while listens; do port=$((20000 + RANDOM % 10000)); done
    mkdir -p "$work/server/locks"
    echo "ada:$(openssl passwd -apr1 "$COVE_PASSWORD")" >"$work/server/htpasswd"
    {
        for module in mpm_event authn_core authn_file authz_core authz_user auth_basic dav dav_fs dav_lock mime setenvif reqtimeout; do
            echo "LoadModule ${module}_module /usr/lib/apache2/modules/mod_$module.so"
        done
        cat <<END
ServerName localhost
Listen 127.0.0.1:$port
PidFile "$work/server/pid"
ErrorLog "$work/server/log"
DefaultRuntimeDir "$work/server"
Mutex pthread default
TypesConfig /dev/null
StartServers 1
ThreadsPerChild 50
MaxRequestWorkers 100
MaxKeepAliveRequests 0
KeepAliveTimeout 30
DocumentRoot "$1"
DavLockDB "$work/server/locks/db"
<Directory "$1">
  Dav On
  DavDepthInfinity On
  AuthType Basic
  AuthName bench
  AuthUserFile "$work/server/htpasswd"
  Require valid-user
</Directory>
END
    } >"$work/server/conf"
    if [ "$(id -u)" = 0 ]; then
        # It won't serve as root: it is www-data, with root's rights on files.
        rights=-all,+dac_override,+dac_read_search,+fowner
        as=(setpriv --reuid www-data --regid www-data --clear-groups "--inh-caps=$rights" "--ambient-caps=$rights")
        chown -R www-data:www-data "$work/server"
    fi
    "${as[@]}" /usr/sbin/apache2 -f "$work/server/conf" -DFOREGROUND &
    servers+=($!)
    until listens; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            cat "$work/server/log" >&2 || true
            fail "Apache does not answer"
        fi
        sleep 0.05
    done
}

listens() { (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

prepare() { [ "$1" = curl ] || ls -lR "${root[$1]}" >/dev/null; }

# make_dataless PEER FILE...: the names are known, the bytes are not here, and the connection is warm.
make_dataless() {
    local peer=$1
    shift
    case "$peer" in
    cove) "$cove" evict "${@/#/${root[cove]}/}" "${root[cove]}/warm" >/dev/null ;;
    rclone)
        # It has no word for this.
        stop_peer rclone
        start_peer rclone "$source"
        prepare rclone
        ;;
    curl) return ;;
    esac
    cat "${root[$peer]}/warm" >/dev/null
    [ "$peer" != cove ] || downloaded=$(counter bytes_downloaded)
}

# require_download BYTES PEER: fails if Cove had them.
require_download() {
    [ "$2" != cove ] || [ "$(counter bytes_downloaded)" -ge $((downloaded + $1)) ] || fail "the bytes were here before"
}

ask() { curl -sSf -u "ada:$COVE_PASSWORD" "$@"; }
