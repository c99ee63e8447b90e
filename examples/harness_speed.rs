use sheepdog::harness::{Provider, Transcript};
use std::time::Instant;
fn main() {
    for p in Provider::ALL {
        let line = match p {
            Provider::Codex => format!(
                "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"item_1\",\"type\":\"command_execution\",\"command\":\"/bin/bash -lc 'ls'\",\"aggregated_output\":\"{}\",\"exit_code\":0,\"status\":\"completed\"}}}}\n",
                "some output\\n".repeat(33)
            ),
            Provider::Pi => format!(
                "{{\"type\":\"message_update\",\"assistantMessageEvent\":{{\"type\":\"text_delta\",\"contentIndex\":0,\"delta\":\"l says\",\"partial\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{0}\"}}],\"usage\":{{\"input\":0,\"output\":0}}}}}},\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{0}\"}}]}}}}\n",
                "word ".repeat(30)
            ),
            Provider::Opencode => format!(
                "{{\"type\":\"text\",\"timestamp\":1795293446653,\"sessionID\":\"ses_e002c0c58ffeAmudee3YGmKaci\",\"part\":{{\"id\":\"prt_1\",\"messageID\":\"msg_1ffd3fc2e001JDL07vUZwRiu7V\",\"type\":\"text\",\"text\":\"{}\",\"time\":{{\"start\":1795293446635,\"end\":1795293446641}}}}}}\n",
                "word ".repeat(60)
            ),
            Provider::Gemini => format!(
                "{{\"type\":\"message\",\"timestamp\":\"2026-11-21T20:28:45.741Z\",\"role\":\"assistant\",\"content\":\"{}\",\"delta\":true}}\n",
                "drip ".repeat(90)
            ),
            Provider::Copilot => format!(
                "{{\"type\":\"assistant.message_delta\",\"data\":{{\"messageId\":\"464524cf-4dda-4dbd-b96e-03a463fbd3fe\",\"deltaContent\":\"{}\"}},\"ephemeral\":true,\"id\":\"cc59fd1b-fcc6-49b9-9214-a379e562da68\",\"timestamp\":\"2026-11-21T20:37:57.579Z\",\"parentId\":\"3b8145b3-188a-42f7-8920-a8c3228a26c4\"}}\n",
                "word ".repeat(50)
            ),
            _ => format!(
                "{{\"type\":\"assistant\",\"message\":{{\"id\":\"msg_0004jdh7ptg9wv\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus\",\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}],\"stop_reason\":null,\"usage\":{{\"input_tokens\":1200,\"cache_read_input_tokens\":200,\"output_tokens\":1}}}},\"parent_tool_use_id\":null,\"session_id\":\"99f07065-a528-4b39-abf8-80fdf1adaadb\",\"uuid\":\"0644d6c0-4b51-4b72-ab58-96d88a8b3545\",\"timestamp\":\"2026-11-21T20:37:37.797Z\"}}\n",
                "word ".repeat(30)
            ),
        };
        let chunk = line.repeat(65536 / line.len());
        let per = (65536 / line.len()) as f64;
        let n = 200_000.0 / per;
        let mut t = Transcript::new(p, false, None);
        let s = Instant::now();
        for _ in 0..n as usize {
            t.feed(chunk.as_bytes());
        }
        let e = s.elapsed().as_secs_f64();
        println!(
            "{:12} {} B/line {:.0} klines/s {:.0} MB/s",
            p.as_str(),
            line.len(),
            n * per / e / 1e3,
            n * chunk.len() as f64 / e / 1e6
        );
    }
}
