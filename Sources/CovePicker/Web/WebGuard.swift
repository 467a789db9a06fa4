internal import Synchronization

/// Who may ask the page's server for what: the one browser that came with the address, for this page alone.
final class WebGuard: Sendable {
    /// What the address has; it counts once.
    let token = Hexadecimal.random(bytes: 32)
    /// What a call has to know beside the cookie, which other servers of this machine are sent, too.
    let callSecret = Hexadecimal.random(bytes: 32)
    private let session = Hexadecimal.random(bytes: 32)
    private let isUsed = Atomic<Bool>(false)
    private let hosts: [String]
    private let cookieName: String

    /// The header field that has the call secret.
    static let callField = "x-cove-call"

    /// Guards the server of a port.
    init(port: UInt16) {
        hosts = ["127.0.0.1:\(port)", "localhost:\(port)"]
        // Cookies are the same for all ports of a host: each picker has one of its own.
        cookieName = "cove-picker-\(port)"
    }

    /// The address to open.
    var address: String { "http://\(hosts[0])/?token=\(token)" }

    /// Why a request is refused; nil where it may go on.
    ///
    /// The Host is looked at first: a name that somebody else's DNS leads to this machine is none of ours.
    func refusal(_ request: HTTPRequest) -> HTTPResponse? {
        guard let host = request.fields["host"]?.lowercased(), hosts.contains(host) else {
            return .text(403, "Not this host")
        }
        if let origin = request.fields["origin"] {
            guard origin == "http://\(host)" else { return .text(403, "Not this origin") }
        } else if request.method == .post {
            return .text(403, "No Origin")
        }
        if let site = request.fields["sec-fetch-site"], !["same-origin", "none"].contains(site) {
            // What is opened from elsewhere comes with the token, or once more through the page that it gets.
            guard request.path == "/", request.query["token"] != nil else { return .text(403, "Not from elsewhere") }
        }
        if request.path == "/", request.query["token"] != nil { return nil }
        guard let cookie = request.cookie(cookieName), Self.isSame(cookie, session) else {
            return .text(403, "This page opens with the address that `cove pick --web` has printed, once")
        }
        guard request.path.hasPrefix("/call/") else {
            return request.method == .get ? nil : .text(405, "Only calls are posted")
        }
        guard let secret = request.fields[Self.callField], Self.isSame(secret, callSecret) else {
            return .text(403, "Not from this page")
        }
        return nil
    }

    /// The header field that lets a browser in, for its token; nil for a wrong one and the second time.
    func admit(_ token: String) -> (String, String)? {
        guard Self.isSame(token, self.token) else { return nil }
        let (isFirst, _) = isUsed.compareExchange(
            expected: false,
            desired: true,
            ordering: .sequentiallyConsistent
        )
        return isFirst ? ("Set-Cookie", "\(cookieName)=\(session); Path=/; HttpOnly; SameSite=Strict") : nil
    }

    /// Compares in a time that tells nothing about where two texts differ.
    private static func isSame(_ left: String, _ right: String) -> Bool {
        let (left, right) = (Array(left.utf8), Array(right.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
