internal import CCurl
internal import CoveCore

/// A source's URL, taken apart: `webdavs://user@host:port/path?option=value`.
struct SourceAddress: Sendable, Equatable {
    /// In lower case.
    var scheme: String
    var user: String?
    var password: String?
    var host: String
    var port: Int?
    /// Decoded, without a slash at either end.
    var path: [UInt8]
    /// What stands behind the question mark, decoded.
    var options: [String: String] = [:]

    /// Nil for what is no URL.
    init?(_ text: String) {
        guard let url = curl_url() else { return nil }
        defer { curl_url_cleanup(url) }
        guard curl_url_set(url, CURLUPART_URL, text, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK else { return nil }
        func part(_ part: CURLUPart, decoded: Bool = false) -> String? {
            var value: UnsafeMutablePointer<CChar>?
            guard curl_url_get(url, part, &value, decoded ? UInt32(CURLU_URLDECODE) : 0) == CURLUE_OK, let value else {
                return nil
            }
            defer { curl_free(value) }
            return String(cString: value)
        }
        guard let scheme = part(CURLUPART_SCHEME), let host = part(CURLUPART_HOST), !host.isEmpty else { return nil }
        self.scheme = scheme.lowercased()
        self.host = host
        user = part(CURLUPART_USER, decoded: true)
        password = part(CURLUPART_PASSWORD, decoded: true)
        port = part(CURLUPART_PORT).flatMap { Int($0) }
        guard let path = PercentEncoding.decode((part(CURLUPART_PATH) ?? "").utf8) else { return nil }
        self.path = Array(path.split(separator: 0x2F).joined(separator: [0x2F]))
        for option in (part(CURLUPART_QUERY) ?? "").split(separator: "&") {
            let sides = option.split(separator: "=", maxSplits: 1)
            guard let name = sides.first, let key = PercentEncoding.decode(name.utf8),
                let value = PercentEncoding.decode((sides.count > 1 ? sides[1] : "").utf8)
            else { return nil }
            options[String(decoding: key, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
    }

    /// `https://host:port`, with another scheme than the one that was typed.
    func origin(_ scheme: String) -> String { "\(scheme)://\(host)" + (port.map { ":\($0)" } ?? "") }
}
