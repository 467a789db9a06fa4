internal import CoveCore

/// A response of HTTP/1.1, with what keeps a browser from doing more with it than it should.
struct HTTPResponse: Sendable {
    var status: Int
    var type: String
    var body: [UInt8]
    /// Further header fields.
    var fields: [(String, String)] = []
    /// True where the picker is over once this has been sent.
    var end: PickerEnd?

    init(_ status: Int, _ type: String, _ body: [UInt8]) {
        self.status = status
        self.type = type
        self.body = body
    }

    /// A line of text.
    static func text(_ status: Int, _ line: String) -> HTTPResponse {
        HTTPResponse(status, "text/plain; charset=utf-8", Array((line + "\n").utf8))
    }

    /// A value.
    static func json(_ value: JSONValue, status: Int = 200) -> HTTPResponse {
        HTTPResponse(status, "application/json", value.bytes)
    }

    /// Nothing but what is served here may be loaded, run or asked, by nobody but this page.
    static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        + "form-action 'none'; frame-ancestors 'none'"

    /// What is sent.
    var bytes: [UInt8] {
        var lines = [
            "HTTP/1.1 \(status) \(Self.reasons[status] ?? "Error")", "Content-Type: \(type)",
            "Content-Length: \(body.count)", "Connection: close", "Cache-Control: no-store",
            "Content-Security-Policy: \(Self.policy)", "Cross-Origin-Opener-Policy: same-origin",
            "Cross-Origin-Resource-Policy: same-origin",

            "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
        ]
        lines += fields.map { "\($0.0): \($0.1)" }
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
    }

    private static let reasons = [
        200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
        408: "Request Timeout", 411: "Length Required", 413: "Content Too Large", 414: "URI Too Long",
        415: "Unsupported Media Type", 417: "Expectation Failed", 431: "Request Header Fields Too Large",
        501: "Not Implemented", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]
}
