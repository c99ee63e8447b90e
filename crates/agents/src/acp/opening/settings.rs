//! PURE: the modes and options of a session, and the request that changes one, whichever way the agent offers them.

use crate::acp::turn::turn_state::Version;
use crate::acp::wire::update::owned;
use ground::json::object::put;
use serde::Serialize;
use serde_json::{Value, json};

/// A way to work that the agent offers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mode {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub is_current: bool,
}

/// A setting of the session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionOption {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `mode`, `model`, `thought_level`, ... as the agent says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// A string, or a boolean.
    pub value: Value,
    /// Empty for a boolean.
    pub choices: Vec<Choice>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    pub value: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl Mode {
    /// All that the agent says of it.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.id, &mut self.name].into_iter().chain(&mut self.description)
    }
}

impl SessionOption {
    /// All that the agent says of it, except for its value.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let choices = self.choices.iter_mut().flat_map(|choice| {
            [&mut choice.value, &mut choice.name].into_iter().chain(&mut choice.description)
        });
        let own = [&mut self.id, &mut self.name].into_iter();
        own.chain(&mut self.description).chain(&mut self.category).chain(choices)
    }
}

/// All of it, as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    modes: Vec<Mode>,
    /// The modes have a method of their own (version 1).
    has_mode_method: bool,
    pub options: Vec<SessionOption>,
    /// The mode that the caller chose, by a level or by name; `None`: it is left to the agent.
    chosen: Option<String>,
}

impl Settings {
    /// From the answer to `session/new`, `session/load` or `session/resume`.
    pub(crate) fn read(opened: &Value) -> Settings {
        let modes = &opened["modes"];
        let current = &modes["currentModeId"];
        let read = |mode: &Value| {
            Some(Mode {
                id: owned(&mode["id"])?,
                name: owned(&mode["name"]).unwrap_or_default(),
                description: owned(&mode["description"]),
                is_current: mode["id"] == *current,
            })
        };
        let modes: Vec<Mode> =
            modes["availableModes"].as_array().into_iter().flatten().filter_map(read).collect();
        let mut settings =
            Settings { has_mode_method: !modes.is_empty(), modes, options: Vec::new(), chosen: None };
        settings.on_options(&opened["configOptions"]);
        settings
    }

    /// Answers of changes hold all options anew; what has none leaves them as they are.
    pub(crate) fn on_options(&mut self, options: &Value) {
        let Some(options) = options.as_array() else { return };
        self.options = options.iter().filter_map(SessionOption::read).collect();
        if let Some(mode) = self.mode_option().and_then(|option| option.value.as_str()).map(str::to_owned) {
            self.on_mode(&mode);
        }
    }

    pub(crate) fn on_mode(&mut self, id: &str) {
        for mode in &mut self.modes {
            mode.is_current = mode.id == id;
        }
        if let Some(option) = self.options.iter_mut().find(|option| option.is_mode()) {
            option.value = json!(id);
        }
    }

    /// The caller has chosen this mode.
    pub(crate) fn choose(&mut self, id: &str) {
        self.chosen = Some(id.to_owned());
    }

    /// The caller has allowed what changes the mode: the one that follows is the caller's.
    pub(crate) fn let_go(&mut self) {
        self.chosen = None;
    }

    /// The caller's mode, if the agent is in another one.
    pub(crate) fn left(&self) -> Option<&str> {
        let now = self.mode()?;
        self.chosen.as_deref().filter(|chosen| *chosen != now)
    }

    fn mode_option(&self) -> Option<&SessionOption> {
        self.options.iter().find(|option| option.is_mode())
    }

    /// Whether this option is the mode. An agent may have more than one.
    pub(crate) fn is_mode_option(&self, id: &str) -> bool {
        self.options.iter().any(|option| option.id == id && option.is_mode())
    }

    pub(crate) fn modes(&self) -> Vec<Mode> {
        let Some(option) = self.mode_option().filter(|_| self.modes.is_empty()) else {
            return self.modes.clone();
        };
        let mode = |choice: &Choice| Mode {
            is_current: option.value == choice.value.as_str(),
            id: choice.value.clone(),
            name: choice.name.clone(),
            description: choice.description.clone(),
        };
        option.choices.iter().map(mode).collect()
    }

    pub(crate) fn mode(&self) -> Option<String> {
        self.modes().into_iter().find(|mode| mode.is_current).map(|mode| mode.id)
    }

    /// Whether the agent has told neither modes nor options, so that it may have some all the same.
    pub(crate) fn is_unknown(&self) -> bool {
        self.modes.is_empty() && self.options.is_empty()
    }

    /// Method and params of the request that sets a mode; `None`: the agent has no modes.
    pub(crate) fn set_mode(
        &self,
        version: Version,
        session: &str,
        mode: &str,
    ) -> Option<(&'static str, Value)> {
        if (self.has_mode_method || self.is_unknown()) && version == Version::One {
            return Some(("session/set_mode", json!({ "sessionId": session, "modeId": mode })));
        }
        let option = self.mode_option()?;
        Some(set_option(version, session, &option.id, &json!(mode)))
    }

    /// The first of these modes that the agent offers, or may have untold, and the request that sets it. `Err`: words that say that
    /// it offers none of them.
    pub(crate) fn to_mode(
        &self,
        wanted: &[String],
        version: Version,
        session: &str,
    ) -> Result<(String, (&'static str, Value)), String> {
        let offered = self.modes();
        let is_offered = |mode: &&String| offered.iter().any(|known| known.id == **mode);
        let may_offer = self.is_unknown() && version == Version::One;
        let found = wanted.iter().find(is_offered).or(wanted.last().filter(|_| may_offer));
        let asked = found.and_then(|mode| Some((mode.clone(), self.set_mode(version, session, mode)?)));
        asked.ok_or_else(|| {
            let names: Vec<&str> = offered.iter().map(|known| known.id.as_str()).collect();
            format!("it offers the modes {:?}, not {}", names.join(", "), wanted.join(", "))
        })
    }

    /// The option that chooses a model, and the choice of that name.
    pub(crate) fn model(&self, name: &str) -> Option<(&str, &str)> {
        let option = self.options.iter().find(|option| option.category.as_deref() == Some("model"))?;
        let choice = option.choices.iter().find(|choice| {
            choice.value == name || choice.name == name || choice.value.rsplit('/').next() == Some(name)
        })?;
        Some((&option.id, &choice.value))
    }
}

/// Method and params of the request that sets an option.
pub(crate) fn set_option(version: Version, session: &str, id: &str, value: &Value) -> (&'static str, Value) {
    let mut params = json!({ "sessionId": session, "configId": id, "value": value });
    // Version 1 knows no other type than a choice's when none is named.
    if value.is_boolean() {
        put(&mut params, "type", "boolean");
    } else if version == Version::Two {
        put(&mut params, "type", "id");
    }
    ("session/set_config_option", params)
}

impl SessionOption {
    fn read(option: &Value) -> Option<SessionOption> {
        let choices = option["options"].as_array().into_iter().flatten();
        Some(SessionOption {
            // Version 1 and version 2.
            id: owned(&option["id"]).or_else(|| owned(&option["configId"]))?,
            name: owned(&option["name"]).unwrap_or_default(),
            description: owned(&option["description"]),
            category: owned(&option["category"]),
            value: option["currentValue"].clone(),
            choices: choices.flat_map(Choice::read).collect(),
        })
    }

    fn is_mode(&self) -> bool {
        self.category.as_deref() == Some("mode")
    }
}

impl Choice {
    /// One, or those of a group.
    fn read(choice: &Value) -> Vec<Choice> {
        if let Some(group) = choice["options"].as_array() {
            return group.iter().flat_map(Choice::read).collect();
        }
        let Some(value) = owned(&choice["value"]) else { return Vec::new() };
        let name = owned(&choice["name"]).unwrap_or_else(|| value.clone());
        vec![Choice { value, name, description: owned(&choice["description"]) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_by_their_own_method_and_modes_as_an_option() {
        let gemini = Settings::read(
            &json!({"modes":{"currentModeId":"default","availableModes":[{"id":"default","name":"D"},{"id":"plan","name":"P"}]}}),
        );
        assert_eq!(gemini.mode().as_deref(), Some("default"));
        let (method, params) = gemini.set_mode(Version::One, "s", "plan").unwrap();
        assert_eq!((method, params), ("session/set_mode", json!({"sessionId":"s","modeId":"plan"})));

        let mode = |id: &str| {
            json!([{id:"mode","name":"Mode","category":"mode","type":"select","currentValue":"build",
            "options":[{"value":"build","name":"build"},{"value":"plan","name":"plan"}]}])
        };
        for (version, id) in [(Version::One, "id"), (Version::Two, "configId")] {
            let mut settings = Settings::read(&json!({ "configOptions": mode(id) }));
            assert_eq!(settings.mode().as_deref(), Some("build"));
            let (method, params) = settings.set_mode(version, "s", "plan").unwrap();
            assert_eq!(method, "session/set_config_option");
            let mut wanted = json!({"sessionId":"s","configId":"mode","value":"plan"});
            if version == Version::Two {
                wanted["type"] = json!("id");
            }
            assert_eq!(params, wanted);
            settings.on_mode("plan");
            assert_eq!(settings.mode().as_deref(), Some("plan"));
        }
        // An answer to session/load may tell nothing: the agent's refusal decides.
        for silent in [json!({}), json!(null)] {
            let settings = Settings::read(&silent);
            assert!(settings.set_mode(Version::One, "s", "plan").is_some(), "{silent}");
            assert_eq!(settings.set_mode(Version::Two, "s", "plan"), None);
        }
        let others = json!({ "configOptions": [{ "id": "x", "currentValue": "y" }] });
        assert_eq!(Settings::read(&others).set_mode(Version::One, "s", "plan"), None);
    }

    #[test]
    fn a_model_is_found_by_its_value_its_name_or_its_last_part() {
        let settings = Settings::read(
            &json!({"configOptions":[{"id":"model","category":"model","currentValue":"a/b",
            "options":[{"group":"g","name":"G","options":[{"value":"a/b","name":"B"},{"value":"a/c","name":"C"}]}]}]}),
        );
        for name in ["a/c", "C", "c"] {
            assert_eq!(settings.model(name), Some(("model", "a/c")), "{name}");
        }
        assert_eq!(settings.model("d"), None);
    }
}
