internal import CoveCore
internal import Foundation
internal import FoundationXML
internal import Glibc
internal import Synchronization

/// What people call the types of files, in their language, as shared-mime-info tells.
enum TypeDescriptions {
    private static let known = Mutex<[String: String?]>([:])

    /// A type's name, such as "PDF document"; nil for one that this machine does not know.
    static func description(of type: String) -> String? {
        let parts = type.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty && !$0.hasPrefix(".") }) else { return nil }
        if let found = known.withLock({ $0[type] }) { return found }
        let found = read(type)
        known.withLock { $0[type] = .some(found) }
        return found
    }

    private static func read(_ type: String) -> String? {
        for folder in BaseDirectories.data {
            let path = "\(folder)/mime/\(type).xml"
            guard let descriptor = try? System.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) else { continue }
            defer { System.close(descriptor) }
            guard let bytes = try? System.contents(descriptor, atMost: 1 << 20) else { continue }
            let reader = CommentReader()
            let parser = XMLParser(data: Data(bytes))
            parser.delegate = reader
            _ = parser.parse()
            for language in languages + [""] { if let comment = reader.comments[language] { return comment } }
        }
        return nil
    }

    /// As the tables name languages, the best one first, from what gettext looks at.
    private static let languages: [String] = {
        let environment = ProcessInfo.processInfo.environment
        let set = ["LC_ALL", "LC_MESSAGES", "LANG"].compactMap { environment[$0] }.first { !$0.isEmpty } ?? "C"
        // Without a locale there is no translation, whatever is preferred.
        guard set != "C", !set.hasPrefix("C."), set != "POSIX" else { return [] }
        let preferred = (environment["LANGUAGE"] ?? "").split(separator: ":").map { String($0) }
        return (preferred + [set]).flatMap { locale in
            let name = String(locale.prefix { $0 != "." && $0 != "@" })
            let language = String(name.prefix { $0 != "_" })
            return [name, language == "en" ? "" : language]
        }
    }()
}

/// Reads the comments of a type's description, by their languages; that in English has none.
private final class CommentReader: NSObject, XMLParserDelegate {
    var comments: [String: String] = [:]
    private var language: String?
    private var text = ""

    func parser(
        _ parser: XMLParser,
        didStartElement element: String,
        namespaceURI: String?,
        qualifiedName: String?,
        attributes: [String: String]
    ) {
        language = element == "comment" ? attributes["xml:lang"] ?? "" : nil
        text = ""
    }

    func parser(_ parser: XMLParser, foundCharacters characters: String) { if language != nil { text += characters } }

    func parser(_ parser: XMLParser, didEndElement element: String, namespaceURI: String?, qualifiedName: String?) {
        if let language { comments[language] = text }
        language = nil
    }
}
