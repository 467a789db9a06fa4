internal import CCurl
internal import CoveCore
internal import Glibc

/// Telling libcurl what is asked, and how.
extension HTTPTransfer {
    func configure(_ options: HTTPOptions) {
        let this = Unmanaged.passUnretained(self).toOpaque()
        cove_curl_set_pointer(handle, CURLOPT_PRIVATE, this)
        cove_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, message)
        cove_curl_set_long(handle, CURLOPT_NOSIGNAL, 1)
        cove_curl_set_text(handle, CURLOPT_PROTOCOLS_STR, "http,https")
        cove_curl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0)
        cove_curl_set_long(handle, CURLOPT_PATH_AS_IS, 1)
        cove_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT_MS, options.connectTimeout.curlMilliseconds)
        cove_curl_set_long(handle, CURLOPT_LOW_SPEED_LIMIT, options.leastRate)
        cove_curl_set_long(handle, CURLOPT_LOW_SPEED_TIME, (options.stallLimit * request.patience).curlSeconds)
        cove_curl_set_long(handle, CURLOPT_TCP_KEEPALIVE, 1)
        if isBulk {
            cove_curl_set_long(handle, CURLOPT_BUFFERSIZE, 512 << 10)
            cove_curl_set_long(handle, CURLOPT_UPLOAD_BUFFERSIZE, 1 << 20)
        }
        // Who asks is told in a header made here.
        cove_curl_set_long(handle, CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        if let certificates = options.certificates {
            cove_curl_set_text(handle, CURLOPT_CAINFO, certificates)
            // The system's certificates count no more.
            cove_curl_set_text(handle, CURLOPT_CAPATH, nil)
        }
        cove_curl_set_transfer(handle, CURLOPT_HEADERFUNCTION, receiveHeader)
        cove_curl_set_pointer(handle, CURLOPT_HEADERDATA, this)
        cove_curl_set_transfer(handle, CURLOPT_WRITEFUNCTION, receiveBody)
        cove_curl_set_pointer(handle, CURLOPT_WRITEDATA, this)
    }

    func describe(_ authorization: String?) throws(ProviderError) {
        cove_curl_set_text(handle, CURLOPT_URL, request.url)
        var lines = request.headers
        if let authorization { lines.append(("Authorization", authorization)) }
        for (name, value) in lines {
            // A line break would begin another header.
            guard !value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
                throw .unsupported("a control character in \(name)")
            }
            // "Name;" is how libcurl is told of an empty value.
            try append(value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        // Else libcurl asks by itself for what it thinks is large.
        if !expects { try append("Expect:") }
        cove_curl_set_pointer(handle, CURLOPT_HTTPHEADER, headers)
        let hasBody: Bool
        if case .none = request.body {
            hasBody = request.method == "PUT" || request.method == "POST"
        } else {
            hasBody = true
        }
        if hasBody {
            let this = Unmanaged.passUnretained(self).toOpaque()
            cove_curl_set_long(handle, CURLOPT_UPLOAD, 1)
            cove_curl_set_offset(handle, CURLOPT_INFILESIZE_LARGE, curl_off_t(request.body.size))
            cove_curl_set_transfer(handle, CURLOPT_READFUNCTION, sendBody)
            cove_curl_set_pointer(handle, CURLOPT_READDATA, this)
            cove_curl_set_seek(handle, rewindBody)
            cove_curl_set_pointer(handle, CURLOPT_SEEKDATA, this)
        } else if request.method == "HEAD" {
            cove_curl_set_long(handle, CURLOPT_NOBODY, 1)
        }
        cove_curl_set_text(handle, CURLOPT_CUSTOMREQUEST, request.method)
        if request.isOnce {
            // A line that was used before and breaks without an answer is replaced by libcurl, and the request sent again.
            cove_curl_set_pointer(handle, CURLOPT_PREREQDATA, Unmanaged.passUnretained(self).toOpaque())
            cove_curl_set_before(handle) { this, _, _, _, _ in
                transfer(this)?.maySend() == true ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
            }
        }
    }

    private func append(_ line: String) throws(ProviderError) {
        guard let longer = curl_slist_append(headers, line) else {
            throw .failed("libcurl has no memory", Errno(ENOMEM))
        }
        headers = longer
    }

    /// Before it is submitted.
    func useNewConnection() { cove_curl_set_long(handle, CURLOPT_FRESH_CONNECT, 1) }
}

private func transfer(_ pointer: UnsafeMutableRawPointer?) -> HTTPTransfer? {
    pointer.map { Unmanaged<HTTPTransfer>.fromOpaque($0).takeUnretainedValue() }
}

private func receiveHeader(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    let isTaken = transfer(this)?.takeHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? false
    return isTaken ? size * count : 0
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    transfer(this)?.takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? -1
}

private func sendBody(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    transfer(this)?.giveBody(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
        ?? cove_curl_abort_reading()
}

private func rewindBody(_ this: UnsafeMutableRawPointer?, _ offset: curl_off_t, _ origin: Int32) -> Int32 {
    let isDone = origin == SEEK_SET && transfer(this)?.seekBody(to: Int64(offset)) == true
    return isDone ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
}
